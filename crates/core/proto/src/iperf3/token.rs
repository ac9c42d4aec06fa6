//! Authentication token: user and password, which the client encrypts.

/// Content of a decrypted authentication token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// User name.
    pub user: String,
    /// Password, in plain text.
    pub password: String,
    /// Time of the client's clock, in seconds since 1970.
    pub seconds: u64,
}

/// The user name or the password is empty or contains whitespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an iperf3 user name or password is empty or contains spaces")]
pub struct TokenError;

impl Token {
    /// Text to encrypt. The server splits it at whitespace.
    pub fn emit(&self) -> Result<String, TokenError> {
        let Self { user, password, seconds } = self;
        let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
        if !is_word(user) || !is_word(password) {
            return Err(TokenError);
        }
        Ok(format!("user: {user}\npwd:  {password}\nts:   {seconds}"))
    }

    /// Parses a decrypted text; `None` if it is not a token, as after decryption with a wrong padding.
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["user:", user, "pwd:", password, "ts:", seconds] = words.as_slice() else {
            return None;
        };
        let (user, password) = ((*user).to_owned(), (*password).to_owned());
        Some(Self { user, password, seconds: seconds.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_three_lines_of_words() {
        let token =
            Token { user: "ann".to_owned(), password: "x(y".to_owned(), seconds: 1_700_000_000 };
        let text = token.emit().unwrap();
        assert_eq!(text, "user: ann\npwd:  x(y\nts:   1700000000");
        assert_eq!(Token::parse(&text), Some(token));
    }

    #[test]
    fn blanks_do_not_go_into_a_token_and_garbage_is_none() {
        let token = |user: &str, password: &str| {
            Token { user: user.to_owned(), password: password.to_owned(), seconds: 1 }.emit()
        };
        assert_eq!(token("a b", "c"), Err(TokenError));
        assert_eq!(token("a", ""), Err(TokenError));
        for text in ["", "user: a pwd: b", "user: a pwd: b ts: x", "user: a pwd: b ts: 1 more"] {
            assert_eq!(Token::parse(text), None, "{text}");
        }
    }
}
