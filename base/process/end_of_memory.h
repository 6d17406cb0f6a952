// Reports that memory or threads ran out where no request can be failed for it: in threads of libraries, in code that
// must not be interrupted, and while the server starts.
#pragma once

namespace maxsim {

// Installs handlers that print to stderr, without allocating, what ran out before the process ends because of it:
//   - an exception of type std::bad_alloc that nothing catches;
//   - a thread that std::thread could not start, which nothing catches (its stack counts towards `ulimit -v`);
//   - an abort while the kernel has no memory left (gRPC aborts where most of its own allocations fail);
//   - a null pointer that is used while the kernel has no memory left (gRPC 1.51 does not check the memory for what it
//     reads from a connection).
// Call it once. Handlers of SIGABRT and SIGSEGV that were installed before still run afterwards.
void ReportEndOfMemory();

}  // namespace maxsim
