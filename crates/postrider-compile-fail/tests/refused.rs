//! A pool or a plain connection is no transaction: that does not compile, and the compiler says what to do.

#[test]
fn only_transactions_are_accepted() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
