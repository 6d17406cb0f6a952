#include "base/process/end_of_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>

namespace maxsim {
namespace {

constexpr char kUncaught[] = "out_of_memory: memory ran out where no request can be refused: the process ends\n";
constexpr char kAborted[] = "out_of_memory: a library aborted, and the system gives no memory: the process ends\n";

// An allocation of a large message may have failed although smaller ones succeed. glibc reserves address space in this
// size, for a new arena.
constexpr size_t kProbeBytes = size_t{64} << 20;

std::terminate_handler previous_terminate = nullptr;
void (*previous_abort)(int) = nullptr;
volatile std::sig_atomic_t said = 0;

template <size_t kSize>
void Say(const char (&line)[kSize]) {
  if (said != 0) return;
  said = 1;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, kSize - 1);
}

[[noreturn]] void OnTerminate() {
  if (const std::exception_ptr thrown = std::current_exception(); thrown != nullptr) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      Say(kUncaught);
      std::abort();
    } catch (...) {
    }
  }
  if (previous_terminate != nullptr) previous_terminate();
  std::abort();
}

void OnAbort(int number) {
  void* const memory = mmap(nullptr, kProbeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    Say(kAborted);
  } else {
    munmap(memory, kProbeBytes);
  }
  if (previous_abort != nullptr) previous_abort(number);
  raise(number);  // the default action follows when this handler returns
}

}  // namespace

void ReportEndOfMemory() {
  previous_terminate = std::set_terminate(OnTerminate);
  struct sigaction old {};
  if (sigaction(SIGABRT, nullptr, &old) != 0 || (old.sa_flags & SA_SIGINFO) != 0) return;  // installed by a sanitizer
  if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) previous_abort = old.sa_handler;
  struct sigaction action {};
  action.sa_handler = OnAbort;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace maxsim
