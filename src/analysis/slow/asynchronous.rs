//! Operations that go on without their task (AIO, io_uring), after their submission.

use super::phase::Phase;

/// The IO of a member that an operation waited for, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnIo {
    /// Device number of the member, or of its disk.
    pub dev: u32,
    pub start_ns: u64,
    /// Time at which the driver got it; `None` if the kernel did not measure it.
    pub issue_ns: Option<u64>,
    pub end_ns: u64,
}

/// The part of an asynchronous read or write (AIO, io_uring) after its submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asynchronous {
    /// Number of direct reads and writes of the file in flight when it began, itself included; 0
    /// if it is not direct or not asynchronous.
    pub depth: u32,
    /// End of the submission, in ns; 0 if it did not go on after that.
    pub queued_ns: u64,
    /// Time at which a limit (`io.max`) let its last bio go, in ns; 0 if none was held.
    pub released_ns: u64,
    /// IO of a member; `None` if it took less than an eighth of the threshold, or if it is unknown
    /// whose IO it was.
    pub io: Option<OwnIo>,
}

impl Asynchronous {
    /// Phases between the end of the submission and `end_ns`, with their start and end.
    pub fn spans(&self, end_ns: u64) -> Vec<(Phase, u64, u64)> {
        if self.queued_ns == 0 {
            return Vec::new();
        }
        let (mut spans, mut at) = (Vec::new(), self.queued_ns);
        let mut until = |phase, to: u64| {
            let to = to.min(end_ns).max(at);
            spans.push((phase, at, to));
            at = to;
        };
        until(Phase::IoLimit, self.released_ns);
        let began = self.queued_ns.max(self.released_ns);
        match self.io.filter(|io| io.end_ns > began) {
            Some(io) => {
                until(Phase::Md, io.start_ns);
                match io.issue_ns {
                    Some(issue_ns) => {
                        until(Phase::DeviceQueue, issue_ns);
                        until(Phase::Device, io.end_ns);
                    }
                    None => until(Phase::DirectIo, io.end_ns),
                }
                until(Phase::Completion, end_ns);
            }
            None => until(Phase::DirectIo, end_ns),
        }
        spans.retain(|(_, from, to)| to > from);
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::{Asynchronous, OwnIo, Phase};

    #[test]
    fn the_time_after_the_submission_is_divided() {
        use Phase::*;
        let io = |start_ns, issue_ns, end_ns| Some(OwnIo { dev: 1, start_ns, issue_ns, end_ns });
        for (released_ns, io, expected) in [
            (0, None, &[(DirectIo, 10, 100)][..]),
            (60, None, &[(IoLimit, 10, 60), (DirectIo, 60, 100)]),
            // The submission begins the IO.
            (
                0,
                io(5, Some(30), 90),
                &[(DeviceQueue, 10, 30), (Device, 30, 90), (Completion, 90, 100)],
            ),
            (0, io(5, Some(7), 90), &[(Device, 10, 90), (Completion, 90, 100)]),
            (0, io(5, None, 100), &[(DirectIo, 10, 100)]),
            (40, io(50, Some(50), 100), &[(IoLimit, 10, 40), (Md, 40, 50), (Device, 50, 100)]),
            // Another bio was released when this IO had ended: the last one's is unknown.
            (60, io(20, Some(20), 50), &[(IoLimit, 10, 60), (DirectIo, 60, 100)]),
            // The completion runs on another CPU, whose clock may be behind.
            (0, io(5, Some(8), 101), &[(Device, 10, 100)]),
        ] {
            let operation = Asynchronous { depth: 1, queued_ns: 10, released_ns, io };
            assert_eq!(operation.spans(100), expected, "{operation:?}");
        }
        assert!(Asynchronous::default().spans(100).is_empty());
    }
}
