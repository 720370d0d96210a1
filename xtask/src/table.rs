//! A table of text, columns aligned, cells never cut.

/// Draws the rows under their heads. Numbers stand to the right, everything else to the left.
pub fn draw(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    line(&mut text, &widths, heads.iter().copied());
    line(
        &mut text,
        &widths,
        widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().iter().map(String::as_str),
    );
    for row in rows {
        line(&mut text, &widths, row.iter().map(String::as_str));
    }
    text
}

fn line<'a>(text: &mut String, widths: &[usize], cells: impl Iterator<Item = &'a str>) {
    let mut drawn = String::new();
    for (width, cell) in widths.iter().zip(cells) {
        let number = !cell.is_empty() && cell.chars().all(|letter| letter.is_ascii_digit());
        drawn += &if number { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
    }
    text.push_str(drawn.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn columns_are_aligned_and_numbers_stand_to_the_right() {
        let drawn = draw(&["suite", "n"], &[vec!["a".into(), "7".into()], vec!["longer".into(), "120".into()]]);
        assert_eq!(drawn, "suite   n\n------  ---\na         7\nlonger  120\n");
    }
}
