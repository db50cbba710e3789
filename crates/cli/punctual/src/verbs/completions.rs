//! `completions`: prints the completion script for a shell.

use anyhow::Result;
use clap::Parser;
use clap_complete::Shell;

use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Completions>("completions");

/// Each script calls `punctual complete` to get the candidates, so that the offered recordings and
/// tables are up to date. A line `:files` stands for file names.
const BASH: &str = r#"_punctual() {
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
complete -o nosort -F _punctual punctual
"#;

const ZSH: &str = r#"#compdef punctual
_punctual() {
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
    (( $#found + $#bare )) && _describe -V 'punctual' found -- bare -S ''
    (( files )) && _files
}
if [ "$funcstack[1]" = "_punctual" ]; then _punctual "$@"; else compdef _punctual punctual; fi
"#;

const FISH: &str = r#"function __punctual_complete
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
complete -c punctual -f -k -a '(__punctual_complete)'
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
        let script = match self.shell {
            Shell::Zsh => ZSH.as_bytes().to_vec(),
            Shell::Fish => FISH.as_bytes().to_vec(),
            // The scripts of the other shells cannot call `punctual complete`, so they complete
            // only verbs and options.
            shell @ (Shell::Elvish | Shell::PowerShell) => {
                let mut script = Vec::new();
                clap_complete::generate(
                    shell,
                    &mut super::shown_command(),
                    "punctual",
                    &mut script,
                );
                script
            }
            _ => BASH.as_bytes().to_vec(),
        };
        output::Output::stdout().put(&script)?;
        Ok(Exit::Done)
    }
}
