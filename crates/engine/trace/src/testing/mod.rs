//! A simulated tracefs, which consists of ordinary files and behaves like the kernel's.
//!
//! It simulates the relevant parts of `kernel/trace/trace_hwlat.c`: a new instance gets its files,
//! only one instance can select the tracer, the tracer sets a threshold if there is none and later
//! restores the old one, and the width must be less than the window. From
//! `kernel/trace/trace_osnoise.c`, it takes the settings with their limits and the rule that only
//! one of the two tracers can run at a time. It can also reject writes. With
//! [events](FakeTracefs::with_events), it has the ring buffer of one CPU, to which tests add pages.

mod events;
mod page_builder;

pub use events::{Value, osnoise_record, record, timerlat_record};
pub use page_builder::{PageBuilder, Piece, layout};

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Files, RealFiles};

/// A simulated tracefs below a root path.
#[derive(Debug)]
pub struct FakeTracefs {
    tracing: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    written: usize,
    refuse: Option<(usize, usize)>,
    /// The threshold that was set before the tracer was selected, and the threshold at the end of
    /// its previous run.
    saved: String,
    last: String,
    /// The window that another program sets just before the tracer is selected.
    meanwhile: Option<u64>,
    /// How far the trace clock is behind CLOCK_MONOTONIC, in ns, if the kernel does not have the
    /// clock `mono`.
    behind: Option<u64>,
}

impl FakeTracefs {
    /// Creates a simulated tracefs below `root`, with these tracers.
    ///
    /// # Errors
    /// Returns the errors of file operations.
    pub fn new(root: &Path, tracers: &str) -> io::Result<Self> {
        let tracing = root.join("sys/kernel/tracing");
        fs::create_dir_all(tracing.join("instances"))?;
        fs::create_dir_all(tracing.join("hwlat_detector"))?;
        for (name, value) in [
            ("available_tracers", tracers),
            ("tracing_thresh", "0"),
            ("hwlat_detector/window", "1000000"),
            ("hwlat_detector/width", "500000"),
            ("hwlat_detector/mode", "none round-robin [per-cpu]"),
        ] {
            fs::write(tracing.join(name), format!("{value}\n"))?;
        }
        if tracers.contains("osnoise") {
            make_osnoise(&tracing, tracers)?;
        }
        let state = State {
            last: "10".to_owned(),
            ..State::default()
        };
        Ok(Self {
            tracing,
            state: Mutex::new(state),
        })
    }

    /// Adds all known events except these (`system:event`).
    ///
    /// # Errors
    /// Returns the errors of file operations.
    pub fn with_events(&self, but: &[&str]) -> io::Result<()> {
        events::write_formats(&self.tracing.join("events"), but)
    }

    /// Removes the clock `mono`. The trace clock is then `behind_ns` behind CLOCK_MONOTONIC.
    pub fn without_mono(&self, behind_ns: u64) {
        self.state().behind = Some(behind_ns);
    }

    /// Adds a page to the ring buffer of each instance that is recording. Returns the number of
    /// these instances.
    ///
    /// # Errors
    /// Returns the errors of file operations.
    pub fn put_page(&self, page: &[u8]) -> io::Result<usize> {
        let mut count = 0;
        for name in self.instances()? {
            let folder = self.tracing.join("instances").join(name);
            if self.text(&folder.join("tracing_on"))? == "1" {
                append(&folder.join(PIPE_RAW), page)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Returns the events that are enabled in an instance, with their filters.
    ///
    /// # Errors
    /// Returns the errors of file operations.
    pub fn switched_on(&self) -> io::Result<Vec<String>> {
        let mut on = Vec::new();
        for name in self.instances()? {
            let events = self.tracing.join("instances").join(name).join("events");
            for system in RealFiles.names(&events)? {
                for event in RealFiles.names(&events.join(&system))? {
                    let folder = events.join(&system).join(&event);
                    if self.text(&folder.join("enable")).is_ok_and(|on| on == "1") {
                        let filter = self.text(&folder.join("filter"))?;
                        on.push(format!("{system}:{event} {filter}").trim().to_owned());
                    }
                }
            }
        }
        on.sort();
        Ok(on)
    }

    /// Rejects `count` writes, starting with number `first` (from 0).
    pub fn refuse(&self, first: usize, count: usize) {
        let mut state = self.state();
        state.written = 0;
        state.refuse = Some((first, count));
    }

    /// Returns the number of writes since the last [`refuse`](Self::refuse).
    pub fn written(&self) -> usize {
        self.state().written
    }

    /// Simulates another program that sets this window, in us, just before the tracer is selected
    /// the next time.
    pub fn meanwhile(&self, window_us: u64) {
        self.state().meanwhile = Some(window_us);
    }

    /// Returns all settings and instances that a program could have left changed.
    ///
    /// # Errors
    /// Returns the errors of file operations.
    pub fn in_force(&self) -> io::Result<Vec<String>> {
        let mut all = vec![format!("last {}", self.state().last)];
        for name in [
            "tracing_thresh",
            "hwlat_detector/window",
            "hwlat_detector/width",
            "hwlat_detector/mode",
        ] {
            all.push(format!("{name} {}", self.text(&self.tracing.join(name))?));
        }
        let noise = OSNOISE_FILES.map(|(name, _)| self.tracing.join("osnoise").join(name));
        for path in noise.iter().filter(|path| path.exists()) {
            all.push(format!("{} {}", path.display(), self.text(path)?));
        }
        all.extend(self.instances()?);
        Ok(all)
    }

    /// Returns the names of the instances.
    ///
    /// # Errors
    /// Returns the errors of file operations.
    pub fn instances(&self) -> io::Result<Vec<String>> {
        RealFiles.names(&self.tracing.join("instances"))
    }

    /// Prints a line in each instance that is tracing. Returns the number of these instances.
    ///
    /// # Errors
    /// Returns the errors of file operations.
    pub fn print(&self, text: &str) -> io::Result<usize> {
        let mut count = 0;
        for name in self.instances()? {
            let folder = self.tracing.join("instances").join(name);
            let traces = self.text(&folder.join("current_tracer"))? == "hwlat"
                && self.text(&folder.join("tracing_on"))? == "1";
            if traces {
                let pipe = folder.join("trace_pipe");
                let mut pipe = fs::OpenOptions::new().append(true).open(pipe)?;
                pipe.write_all(text.as_bytes())?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self, path: &Path) -> io::Result<String> {
        Ok(fs::read_to_string(path)?.trim().to_owned())
    }

    fn number(&self, name: &str) -> io::Result<u64> {
        let text = self.text(&self.tracing.join(name))?;
        text.parse().map_err(|_| invalid())
    }

    /// Fails if a tracer other than `value` is selected. Only one of timerlat and osnoise can run
    /// at a time, but it can run in several instances.
    fn noise_tracer(&self, value: &str) -> io::Result<()> {
        for name in self.instances()? {
            let folder = self.tracing.join("instances").join(name);
            let current = self.text(&folder.join("current_tracer"))?;
            if NOISE_TRACERS.contains(&current.as_str()) && current != value {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
        }
        Ok(())
    }

    /// Switches a known option on or off, given the value `NAME` or `NO_NAME`.
    fn option(&self, path: &Path, value: &str) -> io::Result<()> {
        let value = value.trim();
        let (name, on) = match value.strip_prefix("NO_") {
            Some(name) => (name, false),
            None => (value, true),
        };
        let mut known = false;
        let text = self.text(path)?;
        let set = text.split_whitespace().map(|word| {
            let of = word.strip_prefix("NO_").unwrap_or(word);
            if of == name {
                known = true;
                format!("{}{name}", if on { "" } else { "NO_" })
            } else {
                word.to_owned()
            }
        });
        let text = set.collect::<Vec<_>>().join(" ");
        if known {
            RealFiles.write(path, &text)
        } else {
            Err(invalid())
        }
    }

    /// Rejects a filter if the event does not have the first field that the filter names, and
    /// stores the filter together with the reason (`append_filter_err` in
    /// `kernel/trace/trace_events_filter.c`).
    fn filter(&self, path: &Path, value: &str) -> io::Result<()> {
        let folder = path.parent().unwrap_or(path);
        let event = folder.components().rev().take(2).collect::<Vec<_>>();
        let event: PathBuf = event.into_iter().rev().collect();
        let format = self.text(&self.tracing.join("events").join(event).join("format"))?;
        let part = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let field = value.trim_start_matches('(').split(part).next();
        let field = field.unwrap_or_default();
        let declared = |line: &str| {
            let name = line.split(';').next().unwrap_or_default();
            name.rsplit(' ')
                .next()
                .and_then(|name| name.split('[').next())
                == Some(field)
        };
        if format.lines().any(declared) {
            RealFiles.write(path, value)
        } else {
            let refused = format!("{value}\n^\nparse_error: Field not found\n");
            RealFiles.write(path, &refused)?;
            Err(invalid())
        }
    }

    fn tracer(&self, path: &Path, value: &str) -> io::Result<()> {
        if NOISE_TRACERS.contains(&value) {
            self.noise_tracer(value)?;
        }
        let threshold = self.tracing.join("tracing_thresh");
        let before = self.text(path)?;
        if value == "hwlat" && before != "hwlat" {
            for name in self.instances()? {
                let other = self.tracing.join("instances").join(name);
                if self.text(&other.join("current_tracer"))? == "hwlat" {
                    return Err(io::Error::from_raw_os_error(libc::EBUSY));
                }
            }
            let mut state = self.state();
            if let Some(window) = state.meanwhile.take() {
                let file = self.tracing.join("hwlat_detector/window");
                fs::write(file, window.to_string())?;
            }
            state.saved = self.text(&threshold)?;
            if state.saved == "0" {
                fs::write(&threshold, &state.last)?;
            }
        }
        if value == "nop" && before == "hwlat" {
            let mut state = self.state();
            state.last = self.text(&threshold)?;
            fs::write(&threshold, &state.saved)?;
        }
        fs::write(path, value)
    }
}

const NOISE_TRACERS: [&str; 2] = ["timerlat", "osnoise"];

/// The settings in `osnoise`, with the values that they have after boot.
const OSNOISE_FILES: [(&str, &str); 8] = [
    ("cpus", "0-3"),
    ("period_us", "1000000"),
    ("runtime_us", "1000000"),
    ("stop_tracing_us", "0"),
    ("stop_tracing_total_us", "0"),
    ("timerlat_period_us", "1000"),
    ("print_stack", "0"),
    (
        "options",
        "DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP NO_OSNOISE_PREEMPT_DISABLE \
         NO_OSNOISE_IRQ_DISABLE",
    ),
];

fn make_osnoise(tracing: &Path, tracers: &str) -> io::Result<()> {
    let folder = tracing.join("osnoise");
    let user = folder.join("per_cpu/cpu0");
    fs::create_dir_all(&user)?;
    let timerlat = tracers.contains("timerlat");
    for (name, value) in OSNOISE_FILES {
        if timerlat || !["timerlat_period_us", "print_stack"].contains(&name) {
            fs::write(folder.join(name), format!("{value}\n"))?;
        }
    }
    if timerlat {
        fs::write(user.join("timerlat_fd"), "")
    } else {
        Ok(())
    }
}

/// The ring buffer of the only simulated CPU.
const PIPE_RAW: &str = "per_cpu/cpu0/trace_pipe_raw";

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new()
        .append(true)
        .open(path)?
        .write_all(bytes)
}

/// Writes the list of values, with the selected value in brackets.
fn choose(path: &Path, all: &[&str], value: &str) -> io::Result<()> {
    let shown = all.iter().map(|&one| {
        if one == value {
            format!("[{one}]")
        } else {
            one.to_owned()
        }
    });
    RealFiles.write(path, &shown.collect::<Vec<_>>().join(" "))
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

impl Files for FakeTracefs {
    fn read(&self, path: &Path) -> io::Result<String> {
        RealFiles.read(path)
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        {
            let mut state = self.state();
            let place = state.written;
            state.written += 1;
            if let Some((first, count)) = state.refuse
                && (first..first + count).contains(&place)
            {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            }
        }
        let number = || value.parse::<u64>().map_err(|_| invalid());
        match path.file_name().and_then(|name| name.to_str()) {
            Some("current_tracer") => return self.tracer(path, value),
            Some("window") if number()? <= self.number("hwlat_detector/width")? => {
                return Err(invalid());
            }
            Some("width") if number()? >= self.number("hwlat_detector/window")? => {
                return Err(invalid());
            }
            Some("period_us") if number()? < self.number("osnoise/runtime_us")? => {
                return Err(invalid());
            }
            Some("runtime_us") if number()? > self.number("osnoise/period_us")? => {
                return Err(invalid());
            }
            Some("timerlat_period_us") if !(100..=1_000_000).contains(&number()?) => {
                return Err(invalid());
            }
            Some("filter") => return self.filter(path, value),
            Some("options") => return self.option(path, value),
            Some("mode") => return choose(path, &["none", "round-robin", "per-cpu"], value),
            Some("trace_clock") if value == "mono" && self.state().behind.is_some() => {
                return Err(invalid());
            }
            Some("trace_clock") => return choose(path, &["local", "global", "mono"], value),
            _ => {}
        }
        RealFiles.write(path, value)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        RealFiles.names(folder)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)?;
        for below in ["options", "per_cpu/cpu0"] {
            fs::create_dir_all(folder.join(below))?;
        }
        events::write_switches(&self.tracing.join("events"), &folder.join("events"))?;
        for (name, value) in [
            ("options/overwrite", "0"),
            ("buffer_size_kb", "7"),
            ("trace_marker", ""),
            (PIPE_RAW, ""),
            ("current_tracer", "nop"),
            ("tracing_on", "1"),
            ("tracing_cpumask", "f"),
            ("trace_clock", "[local] global mono"),
            ("trace_pipe", ""),
        ] {
            fs::write(folder.join(name), value)?;
        }
        Ok(())
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir_all(folder)
    }

    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        RealFiles.stream(path)
    }

    fn sink(&self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        if path.file_name().is_none_or(|name| name != "trace_marker") {
            return RealFiles.sink(path);
        }
        Ok(Box::new(events::Marker {
            pipe: path.with_file_name(PIPE_RAW),
            behind: self.state().behind.unwrap_or(0),
        }))
    }
}
