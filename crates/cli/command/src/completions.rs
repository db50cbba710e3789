//! `completions`: prints the completion script for a shell.

use anyhow::Result;
use clap::Parser;
use clap_complete::Shell;

use crate::exit::Exit;
use crate::{Context, Program, Run, Verb, output};

/// The verb.
pub const VERB: Verb = Verb::new::<Completions>("completions");

/// Each script calls `PROGRAM complete` to get the candidates, so that the offered recordings and
/// tables are up to date. A line `:files` stands for file names. `@NAME@` and `@IDENT@` stand for the program.
const BASH: &str = r#"_@IDENT@() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files) compopt -o default ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("$1" complete -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
    # Add no space if a value follows.
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o nosort -F _@IDENT@ @NAME@
"#;

const ZSH: &str = r#"#compdef @NAME@
_@IDENT@() {
    local line word last files=0
    local -a found bare
    for line in "${(@f)$("${words[1]}" complete -- "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
        word="${line%%$'\t'*}"
        last="${word[-1]}"
        word="${word//:/\\:}"
        [[ $line == *$'\t'* ]] && word+=":${line#*$'\t'}"
        case $line in
            '') ;;
            :files) files=1 ;;
            # Add no space if a value follows.
            *) if [[ $last == '=' ]]; then bare+=("$word"); else found+=("$word"); fi ;;
        esac
    done
    (( $#found + $#bare )) && _describe -V '@NAME@' found -- bare -S ''
    (( files )) && _files
}
if [ "$funcstack[1]" = "_@IDENT@" ]; then _@IDENT@ "$@"; else compdef _@IDENT@ @NAME@; fi
"#;

const FISH: &str = r#"function __@IDENT@_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] complete -- $words "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c @NAME@ -f -k -a '(__@IDENT@_complete)'
"#;

/// Print completions for a shell
#[derive(Parser)]
struct Completions {
    /// Shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Run for Completions {
    fn run(self, _: &Context) -> Result<Exit> {
        let program = Program::current()?;
        let of_program = |script: &str| {
            let ident = program.name.replace('-', "_");
            let script = script.replace("@NAME@", program.name);
            script.replace("@IDENT@", &ident).into_bytes()
        };
        let script = match self.shell {
            Shell::Zsh => of_program(ZSH),
            Shell::Fish => of_program(FISH),
            // The scripts of the other shells cannot call `PROGRAM complete`, so they complete
            // only verbs and options.
            shell @ (Shell::Elvish | Shell::PowerShell) => {
                let mut script = Vec::new();
                clap_complete::generate(
                    shell,
                    &mut program.shown_command(),
                    program.name,
                    &mut script,
                );
                script
            }
            _ => of_program(BASH),
        };
        output::Output::stdout().put(&script)?;
        Ok(Exit::Done)
    }
}
