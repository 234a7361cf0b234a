//! What passes a device of a lab's underlay, as others see it: recorded by tcpdump, read by tshark.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use lab::netns::Netns;
use tempfile::TempDir;

use super::Lab;

/// Ends a recording when it passes. Nobody listens at the port.
const MARK: &[u8] = b"the recording ends here";

/// Tells the mark to readers.
const NOT_THE_MARK: &str = "not udp.port == 9";

/// A recording that runs.
pub(crate) struct Recording {
    tcpdump: Child,
    frames: ChildStdout,
    folder: TempDir,
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
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
        let mut tcpdump = spawned.expect("tcpdump starts");
        let said = tcpdump.stderr.take().expect("what it says");
        let frames = tcpdump.stdout.take().expect("what it records");
        let recording = Self { tcpdump, frames, folder: tempfile::tempdir().expect("a folder") };
        let mut lines = BufReader::new(said).lines();
        let listens = lines.any(|line| line.is_ok_and(|line| line.contains("listening on")));
        assert!(listens, "tcpdump listens on {device}");
        // Its last words must not break its pipe.
        std::thread::spawn(move || lines.count());
        recording
    }

    /// Ends it: what passed before the call is in it. A mark goes over the device, from one node to another.
    pub(crate) fn end(mut self, lab: &Lab, from: &str, to: &str) -> Capture {
        lab.netns(from)
            .run(|| {
                let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
                socket.send_to(MARK, format!("{to}:9")).expect("the mark is sent");
            })
            .expect("the namespace is there");
        let mut recorded = Vec::new();
        let mut piece = vec![0; 1 << 20];
        loop {
            let count = self.frames.read(&mut piece).expect("what is recorded is read");
            assert!(count > 0, "tcpdump ended before the mark came by");
            let overlap = recorded.len().saturating_sub(MARK.len());
            recorded.extend_from_slice(&piece[..count]);
            if recorded[overlap..].windows(MARK.len()).any(|bytes| bytes == MARK) {
                break;
            }
        }
        let file = self.folder.path().join("frames.pcap");
        std::fs::write(&file, &recorded).expect("the recording is kept");
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder"));
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
