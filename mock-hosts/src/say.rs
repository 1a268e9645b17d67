//! Printing for the programs: a reader that went away (`… | head`) is no reason to panic.

/// Prints like `print!`, and goes on when standard output is closed.
#[macro_export]
macro_rules! put {
    ($($arg:tt)*) => {{
        use ::std::io::Write as _;
        // Nobody is left to be told.
        let _ = ::std::write!(::std::io::stdout(), $($arg)*);
    }};
}

/// Prints a line like `println!`, and goes on when standard output is closed.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => {{
        use ::std::io::Write as _;
        // Nobody is left to be told.
        let _ = ::std::writeln!(::std::io::stdout(), $($arg)*);
    }};
}
