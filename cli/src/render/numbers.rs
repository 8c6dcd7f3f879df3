//! Numbers as people read them.

/// `16384` → `16,384`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub fn milliseconds(us: u64) -> String {
    match us {
        0..=999 => format!("0.{:01} ms", us / 100),
        1000..=99_999 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        _ => format!("{} ms", grouped(us / 1000)),
    }
}

pub fn seconds(s: f64) -> String {
    if s < 10.0 {
        format!("{s:.1} s")
    } else if s < 120.0 {
        format!("{s:.0} s")
    } else {
        format!("{:.0} min {:02.0} s", (s / 60.0).floor(), s % 60.0)
    }
}

pub fn plural(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {one}s", grouped(n)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([grouped(7), grouped(512), grouped(16384), grouped(1_000_000)], ["7", "512", "16,384", "1,000,000"]);
        assert_eq!([milliseconds(80), milliseconds(1234), milliseconds(123_456)], ["0.0 ms", "1.2 ms", "123 ms"]);
        assert_eq!([seconds(0.24), seconds(24.4), seconds(200.0)], ["0.2 s", "24 s", "3 min 20 s"]);
        assert_eq!([plural(1, "bug"), plural(2, "bug")], ["1 bug", "2 bugs"]);
    }
}
