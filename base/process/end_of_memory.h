// Reports running out of memory or threads where that cannot fail a request: in library threads, in code that must not
// be interrupted, and while the server starts.
#pragma once

namespace maxsim {

// Installs handlers that print to stderr, without allocating, what ran out and ends the process:
//   - an exception of type std::bad_alloc that nothing catches;
//   - a thread that std::thread could not start, which nothing catches (its stack counts towards `ulimit -v`);
//   - an abort while the system gives no memory (gRPC aborts where most of its own allocations fail);
//   - a null pointer that is used while the system gives no memory (gRPC 1.51 does not check the memory for what it
//     reads from a connection).
// Call it once. Earlier SIGABRT and SIGSEGV handlers run afterwards; those with SA_SIGINFO stay instead.
void ReportEndOfMemory();

}  // namespace maxsim
