//! What passes a device of a lab's underlay, as others see it: recorded by tcpdump, read by tshark.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hcn::time::Clock as _;
use lab::netns::Netns;
use tempfile::TempDir;

use super::{Lab, PATIENCE};

/// Ends a recording when it passes. Nobody listens at the port.
const MARK: &[u8] = b"the recording ends here";

/// How long a mark is waited for before another one is sent.
const AGAIN: Duration = Duration::from_millis(200);

/// Tells the mark to readers.
const NOT_THE_MARK: &str = "not udp.port == 9";

/// A recording that runs.
pub(crate) struct Recording {
    tcpdump: Tcpdump,
    pieces: Receiver<Vec<u8>>,
    folder: TempDir,
}

/// A process that ends with this value.
struct Tcpdump(Child);

impl Drop for Tcpdump {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A recording that has ended.
pub(crate) struct Capture {
    file: PathBuf,
    _folder: TempDir,
}

impl Recording {
    /// Begins to record what passes a device of the underlay; frames are kept up to so many bytes.
    pub(crate) fn begin(lab: &Lab, device: &str, snap: u32) -> Self {
        let snap = snap.to_string();
        let mut command = Command::new("tcpdump");
        command
            .args(["--immediate-mode", "-U", "-n", "-B", "65536", "-s", &snap, "-i", device, "-w", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let netns: Netns = lab.netns("underlay");
        let spawned = netns.run(|| command.spawn()).expect("the namespace is there");
        let mut tcpdump = Tcpdump(spawned.expect("tcpdump starts"));
        let said = tcpdump.0.stderr.take().expect("what it says");
        let mut frames = tcpdump.0.stdout.take().expect("what it records");
        let mut lines = BufReader::new(said).lines();
        let listens = lines.any(|line| line.is_ok_and(|line| line.contains("listening on")));
        assert!(listens, "tcpdump listens on {device}");
        // Its last words must not break its pipe.
        std::thread::spawn(move || lines.count());
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut piece = vec![0; 1 << 20];
            while let Ok(count @ 1..) = frames.read(&mut piece) {
                if sender.send(piece[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { tcpdump, pieces, folder: tempfile::tempdir().expect("a folder") }
    }

    /// Ends it: what passed before the call is in it. A mark goes over the device, from one node to another.
    pub(crate) fn end(self, lab: &Lab, from: &str, to: &str) -> Capture {
        let Self { tcpdump: _tcpdump, pieces, folder } = self;
        let from = lab.netns(from);
        let mark = || {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
            socket.send_to(MARK, format!("{to}:9")).expect("the mark is sent");
        };
        let mut recorded: Vec<u8> = Vec::new();
        let end = lab.clock().now() + PATIENCE;
        loop {
            // A mark is lost like any other frame while tcpdump does not keep up.
            from.run(mark).expect("the namespace is there");
            let mut marked = false;
            while let Ok(piece) = pieces.recv_timeout(AGAIN) {
                let overlap = recorded.len().saturating_sub(MARK.len());
                recorded.extend_from_slice(&piece);
                marked |= recorded[overlap..].windows(MARK.len()).any(|bytes| bytes == MARK);
                if marked {
                    break;
                }
            }
            if marked {
                break;
            }
            assert!(lab.clock().now() < end, "the mark never came by");
        }
        let file = folder.path().join("frames.pcap");
        std::fs::write(&file, &recorded).expect("the recording is kept");
        Capture { file, _folder: folder }
    }
}

impl Capture {
    /// Fields of the frames that a display filter of Wireshark's picks. A field that occurs several times in a frame (in
    /// a tunnel and outside of it) has its values joined by commas, the outermost first.
    pub(crate) fn fields(&self, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
        let mut command = Command::new("tshark");
        command.args(["-n", "-r"]).arg(&self.file);
        for protocol in ["ip", "udp", "tcp"] {
            command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
        }
        // As they came: what is put together again has no checksum of its own.
        command.args(["-o", "tcp.desegment_tcp_streams:FALSE", "-T", "fields"]);
        for field in fields {
            command.args(["-e", field]);
        }
        command.args(["-Y", &format!("({filter}) and {NOT_THE_MARK}")]);
        let read = command.output().expect("tshark starts");
        assert!(read.status.success(), "tshark: {}", String::from_utf8_lossy(&read.stderr));
        let lines = String::from_utf8(read.stdout).expect("tshark prints text");
        lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// How many frames a display filter picks.
    pub(crate) fn count(&self, filter: &str) -> usize {
        self.fields(filter, &["frame.number"]).len()
    }
}
