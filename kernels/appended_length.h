// The length of arrays that grow in place (AppendableDocuments and AppendableCodes): one thread appends, any thread
// takes snapshots.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace maxsim {

// The class is thread-safe.
class AppendedLength {
 public:
  struct Value {
    int64_t documents = 0;
    int64_t tokens = 0;
  };

  Value Get() const {
    const MutexLock lock(&mutex_);
    return value_;
  }

  // Counts what was appended. A snapshot that sees it sees the appended bytes, too.
  void Add(int64_t documents, int64_t tokens) {
    const MutexLock lock(&mutex_);
    value_.documents += documents;
    value_.tokens += tokens;
  }

 private:
  mutable Mutex mutex_;
  Value value_ ABSL_GUARDED_BY(mutex_);
};

// Writes the ends of `count` documents that are appended after `first_token` tokens. `offsets` are those of the
// documents' own view, [count + 1]. The offset where the first one begins exists already: a scan may be reading it.
inline void WriteEnds(const int64_t* offsets, int64_t count, int64_t first_token, int64_t* ends) {
  for (int64_t n = 0; n < count; ++n) ends[n] = first_token + offsets[n + 1];
}

}  // namespace maxsim
