#include "base/process/end_of_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

namespace maxsim {
namespace {

constexpr char kUncaught[] = "out_of_memory: memory ran out where no request can be refused: the process ends\n";
constexpr char kNoThread[] =
    "out_of_threads: the system starts no more threads (ulimit -u, ulimit -v, TasksMax, pids.max): the process ends\n";
constexpr char kAborted[] = "out_of_memory: a library aborted, and the system gives no memory: the process ends\n";
constexpr char kNullUsed[] =
    "out_of_memory: a library used memory that it did not get, and the system gives none: the process ends\n";

// Memory counts as exhausted if an allocation of this size fails: a large message may have failed although small
// allocations succeed. glibc reserves address space in this size for a new arena.
constexpr size_t kProbeBytes = size_t{64} << 20;

// If a null pointer to an object of up to this size is used, the fault is at an address below this. Linux maps
// nothing there (vm.mmap_min_addr).
constexpr uintptr_t kNullBytes = 65'536;

std::terminate_handler previous_terminate = nullptr;
void (*previous_abort)(int) = nullptr;
void (*previous_fault)(int) = nullptr;
volatile std::sig_atomic_t said = 0;

template <size_t kSize>
void Say(const char (&line)[kSize]) {
  if (said != 0) return;
  said = 1;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, kSize - 1);
}

bool HasMemory() {
  void* const memory = mmap(nullptr, kProbeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, kProbeBytes);
  return true;
}

[[noreturn]] void OnTerminate() {
  if (const std::exception_ptr thrown = std::current_exception(); thrown != nullptr) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      Say(kUncaught);
      std::abort();
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::resource_unavailable_try_again) {
        Say(kNoThread);
        std::abort();
      }
    } catch (...) {
    }
  }
  if (previous_terminate != nullptr) previous_terminate();
  std::abort();
}

void OnAbort(int number) {
  if (!HasMemory()) Say(kAborted);
  if (previous_abort != nullptr) previous_abort(number);
  raise(number);  // the default action follows when this handler returns
}

void OnFault(int number, siginfo_t* info, void*) {
  const bool is_null = info->si_code > 0 && reinterpret_cast<uintptr_t>(info->si_addr) < kNullBytes;
  if (is_null && !HasMemory()) Say(kNullUsed);
  if (previous_fault != nullptr) previous_fault(number);
  raise(number);
}

// Installs a handler, unless a sanitizer has installed one. A sanitizer's handler takes a siginfo_t.
void Handle(int number, const struct sigaction& action, void (**previous)(int)) {
  struct sigaction old {};
  if (sigaction(number, nullptr, &old) != 0 || (old.sa_flags & SA_SIGINFO) != 0) return;
  if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) *previous = old.sa_handler;
  sigaction(number, &action, nullptr);
}

}  // namespace

void ReportEndOfMemory() {
  previous_terminate = std::set_terminate(OnTerminate);
  struct sigaction on_abort {};
  on_abort.sa_handler = OnAbort;
  on_abort.sa_flags = SA_RESETHAND;
  Handle(SIGABRT, on_abort, &previous_abort);
  struct sigaction on_fault {};
  on_fault.sa_sigaction = OnFault;
  on_fault.sa_flags = SA_SIGINFO | SA_RESETHAND;
  Handle(SIGSEGV, on_fault, &previous_fault);
}

}  // namespace maxsim
