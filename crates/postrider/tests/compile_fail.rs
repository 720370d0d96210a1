//! A pool or a plain connection is no transaction: that does not compile, and the compiler says what to do.

#[test]
fn only_transactions_are_accepted() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail/accepted/*.rs");
    cases.compile_fail("tests/compile_fail/*.rs");
}
