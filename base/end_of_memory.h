// What a process says when memory runs out where no request can be refused: in the threads of libraries, and in code
// that must not be interrupted.
#pragma once

namespace maxsim {

// Has the process say that memory ran out, on stderr and without an allocation, before it ends because of that: by an
// exception of type std::bad_alloc that nothing catches, or by an abort (as gRPC's own allocation ends the process)
// while the kernel has no memory either. To be called once. A handler of SIGABRT that was there before is called after.
void ReportEndOfMemory();

}  // namespace maxsim
