//! SVG charts: grouped bars, stacked bars and lines. The palette is distinguishable with red-green color blindness.

use std::fmt::Write as _;

const COLORS: [&str; 8] = ["#9aa5b1", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#000000"];
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;

pub struct Series {
    pub name: String,
    /// One value per label. `None` if it was not measured or not published.
    pub values: Vec<Option<f64>>,
    /// Whether the values come from a paper. They are drawn with open marks or dashes to distinguish them from ours.
    pub published: bool,
}

pub struct Chart<'a> {
    pub title: &'a str,
    pub unit: &'a str,
    /// Title of the horizontal axis.
    pub axis: &'a str,
    pub labels: &'a [String],
    pub series: &'a [Series],
}

impl Chart<'_> {
    pub fn bars(&self) -> String {
        let mut svg = self.frame(self.top());
        let group = self.plot_width() / self.labels.len() as f64;
        let bar = group * 0.84 / self.series.len() as f64;
        for (s, series) in self.series.iter().enumerate() {
            for (i, value) in series.values.iter().enumerate() {
                let Some(value) = value else { continue };
                let x = LEFT + group * (i as f64 + 0.08) + bar * s as f64;
                let y = self.y(*value);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}, {}: {value:.1} {}</title></rect>",
                    bar * 0.92,
                    TOP + plot_height() - y,
                    COLORS[s % COLORS.len()],
                    series.name,
                    self.labels[i],
                    self.unit
                );
            }
        }
        svg + "</svg>\n"
    }

    /// Stacked bars of percentages.
    pub fn stacked(&self) -> String {
        let mut svg = self.frame(100.0);
        let group = self.plot_width() / self.labels.len() as f64;
        let mut below = vec![0.0; self.labels.len()];
        for (s, series) in self.series.iter().enumerate() {
            for (i, value) in series.values.iter().enumerate() {
                let Some(value) = value else { continue };
                let height = plot_height() * value / 100.0;
                below[i] += height;
                let _ = writeln!(
                    svg,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{}\"><title>{}, {}: {value:.1} {}</title></rect>",
                    LEFT + group * (i as f64 + 0.1),
                    TOP + plot_height() - below[i],
                    group * 0.8,
                    COLORS[s % COLORS.len()],
                    series.name,
                    self.labels[i],
                    self.unit
                );
            }
        }
        svg + "</svg>\n"
    }

    pub fn lines(&self) -> String {
        let mut svg = self.frame(self.top());
        let step = self.plot_width() / self.labels.len() as f64;
        for (s, series) in self.series.iter().enumerate() {
            let color = COLORS[s % COLORS.len()];
            let points: Vec<(f64, f64, f64)> = series
                .values
                .iter()
                .enumerate()
                .filter_map(|(i, value)| value.map(|v| (LEFT + step * (i as f64 + 0.5), self.y(v), v)))
                .collect();
            let path: Vec<String> = points.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
            let dashes = if series.published { " stroke-dasharray=\"5 4\"" } else { "" };
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"{dashes}/>",
                path.join(" ")
            );
            for (x, y, value) in points {
                let fill = if series.published { "#ffffff" } else { color };
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"2\"><title>{}: {value:.2} {}</title></circle>",
                    series.name, self.unit
                );
            }
        }
        svg + "</svg>\n"
    }

    fn plot_width(&self) -> f64 {
        WIDTH - LEFT - RIGHT
    }

    fn y(&self, value: f64) -> f64 {
        TOP + plot_height() * (1.0 - value / self.top())
    }

    /// The smallest round number that is at least the largest value.
    fn top(&self) -> f64 {
        let most = self.series.iter().flat_map(|s| s.values.iter().flatten()).fold(0.0f64, |a, b| a.max(*b)).max(1e-9);
        let power = 10f64.powf(most.log10().floor());
        [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0]
            .into_iter()
            .map(|m| m * power)
            .find(|top| *top >= most)
            .unwrap_or(most)
    }

    /// Title, axes, grid, legend.
    fn frame(&self, top: f64) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n<text x=\"{LEFT}\" y=\"22\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
            self.title
        );
        for step in 0..=5 {
            let value = top * f64::from(step) / 5.0;
            let y = TOP + plot_height() * (1.0 - value / top);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                short(value)
            );
        }
        let step = self.plot_width() / self.labels.len() as f64;
        for (i, label) in self.labels.iter().enumerate() {
            let x = LEFT + step * (i as f64 + 0.5);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                HEIGHT - BOTTOM + 18.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            LEFT + self.plot_width() / 2.0,
            HEIGHT - 10.0,
            self.axis
        );
        let _ = writeln!(
            svg,
            "<text x=\"14\" y=\"{:.1}\" transform=\"rotate(-90 14 {:.1})\" text-anchor=\"middle\">{}</text>",
            HEIGHT / 2.0,
            HEIGHT / 2.0,
            self.unit
        );
        for (s, series) in self.series.iter().enumerate() {
            let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 20.0 * s as f64);
            let color = COLORS[s % COLORS.len()];
            let fill = if series.published { "#ffffff" } else { color };
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" fill=\"{fill}\" stroke=\"{color}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 18.0,
                y + 10.0,
                series.name
            );
        }
        svg
    }
}

fn plot_height() -> f64 {
    HEIGHT - TOP - BOTTOM
}

fn short(value: f64) -> String {
    if value == 0.0 || value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_inside_the_chart() {
        let labels = ["5000".to_owned(), "20000".to_owned()];
        let series = [
            Series { name: "ours".to_owned(), values: vec![Some(0.4), Some(37.0)], published: false },
            Series { name: "published".to_owned(), values: vec![None, Some(44.4)], published: true },
        ];
        let chart = Chart { title: "t", unit: "%", axis: "connections", labels: &labels, series: &series };
        assert_eq!(chart.top(), 50.0);
        assert_eq!((chart.y(0.0), chart.y(50.0)), (TOP + plot_height(), TOP));
        assert_eq!(chart.lines().matches("<circle").count(), 3);
        assert_eq!(chart.bars().matches("<title>").count(), 3);
    }

    #[test]
    fn stacked_shares_fill_the_plot() {
        let labels = ["CF".to_owned()];
        let share = |value| Series { name: "s".to_owned(), values: vec![Some(value)], published: false };
        let series = [share(25.0), share(75.0)];
        let svg = Chart { title: "t", unit: "%", axis: "type", labels: &labels, series: &series }.stacked();
        let quarter = plot_height() / 4.0;
        assert!(
            svg.contains(&format!("y=\"{:.1}\" width=\"372.8\" height=\"{quarter:.1}\"", TOP + 3.0 * quarter)),
            "{svg}"
        );
        assert!(svg.contains(&format!("y=\"{TOP:.1}\" width=\"372.8\" height=\"{:.1}\"", 3.0 * quarter)), "{svg}");
    }
}
