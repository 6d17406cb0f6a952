#include "base/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/mutex.h"

namespace maxsim {
namespace {

struct sigaction previous_action;  // written once, before the handler is installed

void PassOn(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    // When this handler returns, the instruction runs and faults again, and now the previous action applies.
    ::sigaction(SIGBUS, &previous_action, nullptr);
  }
}

}  // namespace

// Holds one guarded range. Ranges are never freed, because the handler may be walking over them. After a guard is
// destroyed, a later guard uses its range again. `version` is odd while begin and end are written, so that the
// handler never combines the begin of one range with the end of another. A thread never faults in a range that is
// being written, because a range is mapped and guarded for as long as threads read it.
struct MappingGuard::Range {
  std::atomic<uint32_t> version{0};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> lost{false};
  bool taken ABSL_GUARDED_BY(mutex) = false;
  Range* next = nullptr;  // constant once the range is in the list

  void Set(uintptr_t new_begin, uintptr_t new_end) {
    version.fetch_add(1);
    begin.store(new_begin);
    end.store(new_end);
    version.fetch_add(1);
  }

  bool Holds(uintptr_t address, uintptr_t* found_begin, uintptr_t* found_end) const {
    const uint32_t before = version.load();
    *found_begin = begin.load();
    *found_end = end.load();
    return before % 2 == 0 && version.load() == before && address >= *found_begin && address < *found_end;
  }

  static Mutex mutex;
  static std::atomic<Range*> first;
};

Mutex MappingGuard::Range::mutex;
std::atomic<MappingGuard::Range*> MappingGuard::Range::first{nullptr};

// The handler is async-signal-safe: it uses lock-free atomics and one system call.
void MappingGuard::OnBusError(int signal, void* info, void* context) {
  const int saved_errno = errno;
  auto* const fault = static_cast<siginfo_t*>(info);
  const auto address = reinterpret_cast<uintptr_t>(fault->si_addr);
  for (Range* range = Range::first.load(); range != nullptr; range = range->next) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (!range->Holds(address, &begin, &end)) continue;
    range->lost.store(true);
    // Replaces the whole range at once: one mapping per page of a large file could exceed the kernel's limit of
    // mappings.
    if (::mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
      break;
    }
    errno = saved_errno;
    return;
  }
  PassOn(signal, fault, context);
  errno = saved_errno;
}

MappingGuard::MappingGuard(void* data, size_t size)
    : range_([] {
        const MutexLock lock(&Range::mutex);
        Range* range = Range::first.load();
        if (range == nullptr) {
          struct sigaction action = {};
          action.sa_sigaction = [](int signal, siginfo_t* info, void* context) { OnBusError(signal, info, context); };
          // SA_ONSTACK: on a thread with an alternate stack, the handler runs on that stack. SA_NODEFER: SIGBUS is not
          // blocked while the handler runs.
          action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
          ::sigemptyset(&action.sa_mask);
          ::sigaction(SIGBUS, nullptr, &previous_action);
          ::sigaction(SIGBUS, &action, nullptr);
        }
        while (range != nullptr && range->taken) range = range->next;
        if (range == nullptr) {
          range = new Range;
          range->next = Range::first.load();
          Range::first.store(range);
        }
        range->taken = true;
        return range;
      }()) {
  range_->lost.store(false);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  range_->Set(begin, begin + size);
}

MappingGuard::~MappingGuard() {
  range_->Set(0, 0);
  const MutexLock lock(&Range::mutex);
  range_->taken = false;
}

bool MappingGuard::lost() const { return range_->lost.load(); }

}  // namespace maxsim
