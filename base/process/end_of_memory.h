// Reports that memory ran out where no request can be failed for it: in threads of libraries, and in code that must not
// be interrupted.
#pragma once

namespace maxsim {

// Installs handlers that print to stderr, without allocating, that memory ran out before the process ends because of
// it. That is either an exception of type std::bad_alloc that nothing catches, or an abort while the kernel has no
// memory left (gRPC aborts when its own allocation fails). Call it once. A handler of SIGABRT that was installed before
// still runs afterwards.
void ReportEndOfMemory();

}  // namespace maxsim
