//! Tables of text.

/// The longest cell, in characters; what is longer is cut with an ellipsis, except in the last column.
const LONGEST: usize = 60;

/// Rows under a heading, columns as wide as their longest cell.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a heading.
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|cell| cell.to_uppercase()).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().map(|cell| visible(&cell)).collect();
        let last = cells.len().saturating_sub(1);
        for cell in &mut cells[..last] {
            if cell.chars().count() > LONGEST {
                *cell = cell.chars().take(LONGEST - 1).chain(['…']).collect();
            }
        }
        self.rows.push(cells);
    }

    /// The table as text.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
            cells.join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// The text with control characters made visible: a terminal must not obey what a message says.
pub(crate) fn visible(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// An option with this value, as a command line has it: pasted into a shell, it is the value and nothing else.
pub(crate) fn argument(name: &str, value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.:/@-".contains(c);
    if !value.is_empty() && !value.starts_with('-') && value.chars().all(is_plain) {
        format!("--{name} {value}")
    } else {
        format!("--{name}='{}'", visible(value).replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_word_of_a_command_line_whatever_stands_in_it() {
        for (value, expected) in [
            ("customer-42", "--key customer-42"),
            ("Ann Smith", "--key='Ann Smith'"),
            ("a;reboot", "--key='a;reboot'"),
            ("$(id)", "--key='$(id)'"),
            ("it's", "--key='it'\\''s'"),
            ("-x", "--key='-x'"),
            ("", "--key=''"),
            ("\u{1b}", "--key='\\u{1b}'"),
        ] {
            assert_eq!(argument("key", value), expected);
        }
    }

    #[test]
    fn columns_line_up_and_control_characters_show() {
        let mut table = Table::new(&["id", "error"]);
        table.row(["1".to_owned(), "a\u{1b}[31m\nb".to_owned()]);
        table.row(["12345".to_owned(), "c".to_owned()]);
        assert_eq!(table.render(), "ID     ERROR\n1      a\\u{1b}[31m\\nb\n12345  c");
    }
}
