//! Start and end of windows: the length comes from the monotonic clock, the position from the wall clock.

use std::time::Duration;

/// Larger differences are jumps of the wall clock; time synchronization corrects smaller ones gradually.
const JUMP: Duration = Duration::from_secs(1);

/// Consecutive windows have no gap and no overlap, unless the wall clock jumps; then the next window takes the new
/// time.
#[derive(Debug)]
pub struct WindowClock {
    /// End of the last window: in milliseconds since the epoch, and as time since the agent's start.
    ended_ms: i64,
    ended: Duration,
    /// Number of jumps of the wall clock.
    pub jumps: u64,
}

impl WindowClock {
    pub fn new(wall_ms: i64, monotonic: Duration) -> WindowClock {
        WindowClock { ended_ms: wall_ms, ended: monotonic, jumps: 0 }
    }

    /// Start and end of the window that ends now, in milliseconds since the epoch.
    pub fn window(&mut self, wall_ms: i64, monotonic: Duration) -> (i64, i64) {
        let length_ms = (monotonic.as_millis() - self.ended.as_millis()) as i64;
        let expected_ms = self.ended_ms + length_ms;
        let jumped = wall_ms.abs_diff(expected_ms) > JUMP.as_millis() as u64;
        let to_ms = if jumped { wall_ms } else { expected_ms };
        self.jumps += u64::from(jumped);
        (self.ended_ms, self.ended) = (to_ms, monotonic);
        (to_ms - length_ms, to_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::WindowClock;
    use std::time::Duration;

    #[test]
    fn a_jump_of_the_wall_clock_moves_windows_but_keeps_their_length() {
        let at = Duration::from_millis;
        let mut clock = WindowClock::new(10_000, at(500));
        assert_eq!(clock.window(11_003, at(1_500)), (10_000, 11_000));
        // a day ahead, then back
        assert_eq!(clock.window(86_412_000, at(2_500)), (86_411_000, 86_412_000));
        assert_eq!(clock.window(13_000, at(3_500)), (12_000, 13_000));
        assert_eq!(clock.window(14_010, at(4_500)), (13_000, 14_000));
        assert_eq!(clock.jumps, 2);
    }

    #[test]
    fn small_corrections_leave_no_gap() {
        let mut clock = WindowClock::new(0, Duration::ZERO);
        let mut ended = 0;
        for second in 1..=100u64 {
            let drift = (second * 5) as i64; // 5 ms in a second
            let (from, to) = clock.window(second as i64 * 1_000 + drift, Duration::from_secs(second));
            assert_eq!((from, to), (ended, second as i64 * 1_000));
            ended = to;
        }
        assert_eq!(clock.jumps, 0);
    }
}
