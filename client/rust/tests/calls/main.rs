//! Tests of whole calls, with a server of the test's own. The tests of a program are linked once, so they are one program.

mod connections;
mod methods;
mod server;
