// A backend that tests control: its memory, its failures, and when a call ends. It computes no scores: document n
// always has the score -n.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "kernels/codes/appendable_codes.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/maxsim.h"

namespace maxsim::test {

class FakeBackend : public Backend {
 public:
  // The arguments of one TopK call. Vectors have one element per query.
  struct Call {
    std::vector<int32_t> query_tokens;  // tests identify queries by it
    std::vector<int64_t> num_candidates;
    std::vector<const uint32_t*> ordinals;
    int64_t num_documents = 0;
  };

  struct LoadCall {
    Tier tier = Tier::kDevice;
    int64_t num_documents = 0;
  };

  explicit FakeBackend(std::string name = "cpu") { info_.name = std::move(name); }

  // Sets BackendInfo::device and isa, which name the GPU. Not thread-safe.
  void SetDevice(std::string device, std::string isa) {
    info_.device = std::move(device);
    info_.isa = std::move(isa);
  }
  // Sets BackendInfo::max_call_work. Not thread-safe: call it before an engine is made.
  void SetMaxCallWork(uint64_t work) { info_.max_call_work = work; }

  // These functions control the backend and are thread-safe.
  void SetFreeBytes(uint64_t bytes);
  void SetBytesPerToken(uint64_t bytes);         // of device memory or, for Tier::kHost, of host memory; default 0
  void SetScanBytesPerDocument(uint64_t bytes);  // default 0
  void SetHealth(absl::Status health);
  void FailLoads(absl::Status status);      // Load returns `status`, until it is set to OK
  void OnLoad(std::function<void()> hook);  // `hook` runs in Load, without a lock
  // `hook` runs in each TopK call, and its status is returned if it is an error. If `hook` is null, all calls succeed.
  void OnTopK(std::function<absl::Status(absl::Span<const Query>)> hook);
  void OnAlign(std::function<absl::Status()> hook);  // `hook` runs in each Align call, and its error is returned
  void FailExecutors(absl::Status status);           // CreateExecutor returns `status`, until it is set to OK
  void FailAppendables(absl::Status status);         // CreateAppendable returns `status`, until it is set to OK
  void FailAppends(absl::Status status);             // Append to any documents returns `status`, until it is set to OK
  void FailCodeAppends(absl::Status status);         // Append to any codes returns `status`, until it is set to OK
  // `hook` runs in each of these calls, without a lock. It may be null.
  void OnCreateAppendable(std::function<void()> hook);
  void OnAppend(std::function<void()> hook);
  // Makes TopK calls wait until Open.
  void Close();
  void Open();
  // Waits until `count` TopK calls have begun in total. Returns false if they have not within kTestLimit
  // (eventually.h).
  bool WaitForCalls(size_t count);

  std::vector<Call> calls() const;
  int64_t num_loads() const;
  std::vector<LoadCall> loads() const;  // in the order in which they began
  int64_t num_documents_alive() const;  // sets of documents that Load made, and snapshots
  ExecutorOptions executor_options() const;

  // These functions are Backend's.
  const BackendInfo& info() const override { return info_; }
  absl::StatusOr<size_t> FreeBytes() const override;
  MemoryNeed BytesNeeded(ScalarType type, int32_t dim, int64_t num_documents, int64_t num_tokens,
                         Tier tier) const override;
  absl::StatusOr<std::unique_ptr<Documents>> Load(const DocumentsView& documents, Tier tier,
                                                  std::shared_ptr<const void> keep_alive) override;
  // Appended documents can be read back. Each living snapshot counts once in num_documents_alive.
  absl::StatusOr<std::shared_ptr<AppendableDocuments>> CreateAppendable(const AppendableShape& shape) override;
  absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options) override;
  // Codes take one byte of device memory per token and plane (bit per value). They cannot be scanned.
  MemoryNeed CodeBytesNeeded(const CodeShape& shape, int planes, int64_t num_documents,
                             int64_t num_tokens) const override;
  // Returns `num_documents` times the value of SetScanBytesPerDocument.
  size_t ScanBytesNeeded(const CodeShape& shape, int64_t num_documents) const override;
  absl::StatusOr<std::unique_ptr<LoadedCodes>> LoadCodes(const CodesView& codes, int planes,
                                                         std::shared_ptr<const void> keep_alive) override;
  // The codes cannot be scanned either.
  absl::StatusOr<std::shared_ptr<AppendableCodes>> CreateAppendableCodes(const AppendableCodesShape& shape) override;
  absl::Status Health() const override;

 private:
  class FakeAppendable;
  class FakeAppendableCodes;
  class FakeCodes;
  class FakeDocuments;
  class FakeExecutor;

  BackendInfo info_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  uint64_t free_bytes_ ABSL_GUARDED_BY(mutex_) = uint64_t{1} << 40;
  uint64_t bytes_per_token_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t scan_bytes_per_document_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
  absl::Status load_status_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_load_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::Status(absl::Span<const Query>)> on_top_k_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::Status()> on_align_ ABSL_GUARDED_BY(mutex_);
  absl::Status appendable_status_ ABSL_GUARDED_BY(mutex_);
  absl::Status append_status_ ABSL_GUARDED_BY(mutex_);
  absl::Status code_append_status_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_create_appendable_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_append_ ABSL_GUARDED_BY(mutex_);
  absl::Status executor_status_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<LoadCall> loads_ ABSL_GUARDED_BY(mutex_);
  ExecutorOptions executor_options_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<std::atomic<int64_t>> alive_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace maxsim::test
