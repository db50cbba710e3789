//! A browser that is controlled through its DevTools protocol, with one tab and one command after
//! another. <https://chromedevtools.github.io/devtools-protocol/>

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const BROWSERS: [&str; 2] = ["chromium", "chromium-browser"];
/// Time until a page must be as expected.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the name of the installed browser, or prints SKIP if there is none.
pub(crate) fn browser() -> Option<&'static str> {
    let works = |name: &&&str| {
        let version = Command::new(name)
            .arg("--version")
            .stderr(Stdio::null())
            .output();
        version.is_ok_and(|output| output.status.success())
    };
    let found = BROWSERS.iter().find(works).copied();
    if found.is_none() {
        punctual_testing::skip!(Program, "chromium is not installed");
    }
    found
}

/// One tab.
pub(crate) struct Tab {
    browser: Child,
    stream: TcpStream,
    number: u64,
    session: Option<String>,
    /// The console output of the page.
    pub(crate) console: Vec<String>,
}

impl Drop for Tab {
    fn drop(&mut self) {
        // If it has already ended, there is nothing to do.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

impl Tab {
    pub(crate) fn open(browser: &str, profile: &Path) -> Self {
        let mut browser = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-dev-shm-usage"])
            .args(["--use-gl=angle", "--use-angle=swiftshader"])
            .args(["--enable-unsafe-swiftshader", "--hide-scrollbars"])
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(browser.stderr.take().unwrap());
        let mut line = String::new();
        let url = loop {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "the browser ended");
            if let Some((_, url)) = line.split_once("DevTools listening on ws://") {
                break url.trim().to_owned();
            }
        };
        // Drain the pipe, because a full one would block the browser.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let (address, path) = url.split_once('/').unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "GET /{path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Key: cHVuY3R1YWwgdGVzdCBrZXk=\r\n\
             Sec-WebSocket-Version: 13\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        let mut tab = Self {
            browser,
            stream,
            number: 0,
            session: None,
            console: Vec::new(),
        };
        let target = tab.command("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = tab.command("Target.attachToTarget", attach);
        tab.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            tab.command(&format!("{domain}.enable"), json!({}));
        }
        tab
    }

    fn send(&mut self, text: &str) {
        // A masked text frame (RFC 6455, 5.2). A zero mask leaves the text unchanged.
        let mut frame = vec![0x81];
        match text.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            long @ 126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(long as u16).to_be_bytes());
            }
            longest => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(longest as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        self.stream.write_all(&frame).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut whole = Vec::new();
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).unwrap();
            let length = match head[1] & 0x7f {
                126 => {
                    let mut more = [0; 2];
                    self.stream.read_exact(&mut more).unwrap();
                    u16::from_be_bytes(more).into()
                }
                127 => {
                    let mut more = [0; 8];
                    self.stream.read_exact(&mut more).unwrap();
                    u64::from_be_bytes(more)
                }
                short => short.into(),
            };
            let mut part = vec![0; length as usize];
            self.stream.read_exact(&mut part).unwrap();
            // Pings can be ignored during such a short time.
            if head[0] & 0x0f <= 2 {
                whole.extend_from_slice(&part);
                if head[0] & 0x80 != 0 {
                    return serde_json::from_slice(&whole).unwrap();
                }
            }
        }
    }

    pub(crate) fn command(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut message = json!({"id": number, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.send(&message.to_string());
        loop {
            let answer = self.receive();
            if let Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") =
                answer["method"].as_str()
            {
                self.console.push(answer["params"].to_string());
            }
            if answer["id"] == number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Returns the value of an expression, or the result of a promise.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.command("Runtime.evaluate", asked);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.eval(&format!("Boolean({expression})")) != json!(true) {
            let page = "document.title + ' ' + location.href";
            assert!(
                began.elapsed() < PATIENCE,
                "{expression}: {}",
                self.eval(page)
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    pub(crate) fn go(&mut self, url: &str) {
        // Set a marker, so that the previous page is not mistaken for the next one.
        self.eval("window.punctual_before = true");
        let gone = self.command("Page.navigate", json!({"url": url}));
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        self.until("!window.punctual_before && document.readyState === 'complete'");
    }

    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.command("Emulation.setDeviceMetricsOverride", size);
    }

    pub(crate) fn dark(&mut self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.command(
            "Emulation.setEmulatedMedia",
            json!({"media": "", "features": features}),
        );
    }

    /// Shows pages as in print, until another medium is set.
    pub(crate) fn print(&mut self) {
        self.command("Emulation.setEmulatedMedia", json!({"media": "print"}));
    }

    /// Returns an image of the whole page.
    pub(crate) fn shot(&mut self) -> String {
        let asked = json!({"format": "png", "captureBeyondViewport": true});
        let shot = self.command("Page.captureScreenshot", asked);
        shot["data"].as_str().unwrap().to_owned()
    }

    /// Moves the pointer to a position in the first element that matches. `press` lists the actions
    /// there.
    pub(crate) fn point(&mut self, selector: &str, at: (f64, f64), press: &[&str]) {
        let place = self.eval(&format!(
            "(() => {{ const one = document.querySelector({selector:?}); \
             one.scrollIntoView({{block: 'center'}}); const box = one.getBoundingClientRect(); \
             return [box.left + {} * box.width, box.top + {} * box.height]; }})()",
            at.0, at.1
        ));
        for kind in [&["mouseMoved"], press].concat() {
            let mut event = json!({"type": kind, "x": place[0], "y": place[1]});
            if kind != "mouseMoved" {
                event["button"] = json!("left");
                event["clickCount"] = json!(1);
            }
            self.command("Input.dispatchMouseEvent", event);
        }
    }

    pub(crate) fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": key});
            // The browser's built-in reaction to a key depends on its code.
            match key {
                "Tab" => event["windowsVirtualKeyCode"] = json!(9),
                "Enter" => {
                    event["windowsVirtualKeyCode"] = json!(13);
                    event["text"] = json!("\r");
                }
                _ => {}
            }
            self.command("Input.dispatchKeyEvent", event);
        }
    }
}

pub(crate) const CLICK: [&str; 2] = ["mousePressed", "mouseReleased"];
