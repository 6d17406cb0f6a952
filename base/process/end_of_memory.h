// Reports that memory or threads have run out, in places where no request can fail instead: in library threads, in code
// that must not be interrupted, and while the server starts.
#pragma once

namespace maxsim {

// Installs handlers for the following cases. They print to stderr, without allocating, what has run out. The process
// then ends.
//   - an exception of type std::bad_alloc that nothing catches;
//   - a thread that std::thread could not start, which nothing catches (its stack counts towards `ulimit -v`);
//   - an abort while the system gives no memory (gRPC aborts where most of its own allocations fail);
//   - a null pointer that is used while the system gives no memory (gRPC 1.51 does not check the memory for what it
//     reads from a connection).
// Call it once. Existing SIGABRT and SIGSEGV handlers run after these. If an existing handler has SA_SIGINFO, it stays
// and this one is not installed.
void ReportEndOfMemory();

}  // namespace maxsim
