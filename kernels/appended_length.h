// Counts the documents and tokens in arrays that grow in place (AppendableDocuments and AppendableCodes): one thread
// appends, any thread takes snapshots.
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

  // Adds to the length. Call it after the documents' bytes are written: a thread that sees the new length in Get also
  // sees these bytes.
  void Add(int64_t documents, int64_t tokens) {
    const MutexLock lock(&mutex_);
    value_.documents += documents;
    value_.tokens += tokens;
  }

 private:
  mutable Mutex mutex_;
  Value value_ ABSL_GUARDED_BY(mutex_);
};

// Writes to `ends` the end offset of each of `count` documents that are appended after `first_token` tokens. `offsets`
// [count + 1] are the documents' own offsets, which begin at 0. The first document's begin is not written: that offset
// exists already, and a scan may be reading it.
inline void WriteEnds(const int64_t* offsets, int64_t count, int64_t first_token, int64_t* ends) {
  for (int64_t n = 0; n < count; ++n) ends[n] = first_token + offsets[n + 1];
}

}  // namespace maxsim
