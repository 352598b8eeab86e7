//! Names in statements.

/// A name in quotation marks, unless it needs none.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| !byte.is_ascii_digit());
    if begins && name.bytes().all(plain) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_names_are_quoted() {
        assert_eq!(quoted("a_1"), "a_1");
        assert_eq!(quoted("A"), "\"A\"");
        assert_eq!(quoted("1\"a"), "\"1\"\"a\"");
    }
}
