#include "tests/support/fake_backend.h"
#include "kernels/rank_order.h"
#include "tests/support/values/eventually.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/validate.h"

namespace maxsim::test {

class FakeBackend::FakeDocuments : public Documents {
 public:
  FakeDocuments(const DocumentsView& view, MemoryNeed memory, std::shared_ptr<std::atomic<int64_t>> alive)
      : view_(view), num_tokens_(view.num_tokens()), memory_(memory), alive_(std::move(alive)) {
    if (alive_ != nullptr) ++*alive_;
  }
  ~FakeDocuments() override {
    if (alive_ != nullptr) --*alive_;
  }
  ScalarType type() const override { return view_.type; }
  int32_t dim() const override { return view_.dim; }
  int64_t num_documents() const override { return view_.num_documents; }
  int64_t num_tokens() const override { return num_tokens_; }
  MemoryNeed memory() const override { return memory_; }

 private:
  const DocumentsView view_;
  const int64_t num_tokens_;  // a copy, because the view's offsets may not exist after the load
  const MemoryNeed memory_;
  const std::shared_ptr<std::atomic<int64_t>> alive_;
};

class FakeBackend::FakeCodes : public LoadedCodes {
 public:
  FakeCodes(const CodesView& view, int planes)
      : shape_(view.shape), planes_(planes), num_documents_(view.num_documents), num_tokens_(view.num_tokens()) {}
  const CodeShape& shape() const override { return shape_; }
  int planes() const override { return planes_; }
  int64_t num_documents() const override { return num_documents_; }
  bool has_bounds(int) const override { return true; }
  MemoryNeed memory() const override { return {.device_bytes = static_cast<size_t>(num_tokens_ * planes_)}; }

 private:
  const CodeShape shape_;
  const int planes_;
  const int64_t num_documents_;
  const int64_t num_tokens_;
};

class FakeBackend::FakeAppendable : public AppendableDocuments {
 public:
  FakeAppendable(FakeBackend* backend, const AppendableShape& shape) : backend_(*backend), shape_(shape) {}

  absl::Status Append(const DocumentsView& documents) override {
    std::function<void()> hook;
    {
      const MutexLock lock(&backend_.mutex_);
      if (!backend_.append_status_.ok()) return backend_.append_status_;
      hook = backend_.on_append_;
    }
    if (hook != nullptr) hook();
    const MutexLock lock(&mutex_);
    absl::Status status = ValidateAppend(shape_, num_documents_, num_tokens(), documents);
    if (!status.ok()) return status;
    const auto* const bytes = static_cast<const uint8_t*>(documents.tokens);
    rows_.insert(rows_.end(), bytes, bytes + static_cast<size_t>(documents.num_tokens()) * row_bytes());
    num_documents_ += documents.num_documents;
    return absl::OkStatus();
  }

  std::shared_ptr<const Documents> Snapshot() const override {
    const MutexLock lock(&mutex_);
    // The view has no token memory. Its offsets only say how many tokens there are.
    const std::vector<int64_t> ends(static_cast<size_t>(num_documents_) + 1, num_tokens());
    const DocumentsView view = {
        .type = shape_.type, .dim = shape_.dim, .num_documents = num_documents_, .offsets = ends.data()};
    return std::make_shared<FakeDocuments>(view, MemoryNeed{}, backend_.alive_);
  }

  absl::Status ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const override {
    const MutexLock lock(&mutex_);
    absl::Status status = ValidateReadRows(this->num_tokens(), first_token, num_tokens, rows);
    if (!status.ok() || num_tokens == 0) return status;
    std::memcpy(rows, rows_.data() + static_cast<size_t>(first_token) * row_bytes(),
                static_cast<size_t>(num_tokens) * row_bytes());
    return absl::OkStatus();
  }

 private:
  size_t row_bytes() const { return static_cast<size_t>(shape_.dim) * SizeOf(shape_.type); }
  int64_t num_tokens() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<int64_t>(rows_.size() / row_bytes());
  }

  FakeBackend& backend_;
  const AppendableShape shape_;
  mutable Mutex mutex_;
  int64_t num_documents_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint8_t> rows_ ABSL_GUARDED_BY(mutex_);
};

class FakeBackend::FakeAppendableCodes : public AppendableCodes {
 public:
  FakeAppendableCodes(FakeBackend* backend, const AppendableCodesShape& shape) : backend_(*backend), shape_(shape) {}

  absl::Status Append(const CodesView& codes) override {
    {
      const MutexLock lock(&backend_.mutex_);
      if (!backend_.code_append_status_.ok()) return backend_.code_append_status_;
    }
    const MutexLock lock(&mutex_);
    absl::Status status = ValidateCodesAppend(shape_, num_documents_, num_tokens_, codes);
    if (!status.ok()) return status;
    num_documents_ += codes.num_documents;
    num_tokens_ += codes.num_tokens();
    return absl::OkStatus();
  }

  std::shared_ptr<const LoadedCodes> Snapshot() const override {
    const MutexLock lock(&mutex_);
    const std::vector<int64_t> ends(static_cast<size_t>(num_documents_) + 1, num_tokens_);
    return std::make_shared<FakeCodes>(
        CodesView{.shape = shape_.codes, .num_documents = num_documents_, .offsets = ends.data()}, shape_.planes);
  }

 private:
  FakeBackend& backend_;
  const AppendableCodesShape shape_;
  mutable Mutex mutex_;
  int64_t num_documents_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
};

class FakeBackend::FakeExecutor : public Executor {
 public:
  explicit FakeExecutor(FakeBackend* backend) : backend_(*backend) {}

  absl::Status TopK(const Documents& documents, absl::Span<const Query> queries,
                    absl::Span<std::vector<Scored>> results, CallTimings* timings) override {
    std::function<absl::Status(absl::Span<const Query>)> hook;
    {
      MutexLock lock(&backend_.mutex_);
      Call& call = backend_.calls_.emplace_back();
      call.num_documents = documents.num_documents();
      for (const Query& query : queries) {
        call.query_tokens.push_back(query.num_tokens);
        call.num_candidates.push_back(query.ordinals == nullptr ? documents.num_documents() : query.num_candidates);
        call.ordinals.push_back(query.ordinals);
      }
      backend_.changed_.NotifyAll();
      while (backend_.closed_) backend_.changed_.Wait(lock);
      hook = backend_.on_top_k_;
    }
    if (hook != nullptr) {
      if (absl::Status status = hook(queries); !status.ok()) return status;
    }
    for (size_t idx = 0; idx < queries.size(); ++idx) {
      const Query& query = queries[idx];
      const int64_t count = query.ordinals == nullptr ? documents.num_documents() : query.num_candidates;
      std::vector<Scored>& scored = results[idx];
      scored.clear();
      for (int64_t position = 0; position < count; ++position) {
        const auto ordinal = query.ordinals == nullptr ? position : static_cast<int64_t>(query.ordinals[position]);
        scored.push_back({-static_cast<float>(ordinal), static_cast<uint32_t>(position)});
      }
      std::sort(scored.begin(), scored.end(), RanksBefore);
      if (scored.size() > static_cast<size_t>(query.top_k)) scored.resize(static_cast<size_t>(query.top_k));
    }
    if (timings != nullptr) *timings = {.copy_seconds = 0.25, .kernel_seconds = 0.5};
    return absl::OkStatus();
  }

  absl::Status Align(const Documents&, const Query&, absl::Span<const uint32_t>,
                     absl::Span<TokenMatch> matches) override {
    std::function<absl::Status()> hook;
    {
      const MutexLock lock(&backend_.mutex_);
      hook = backend_.on_align_;
    }
    if (hook != nullptr) {
      if (absl::Status status = hook(); !status.ok()) return status;
    }
    std::fill(matches.begin(), matches.end(), TokenMatch{});
    return absl::OkStatus();
  }

  absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) override {
    staged_ = std::make_unique<FakeDocuments>(documents, MemoryNeed{}, nullptr);
    return staged_.get();
  }

 private:
  FakeBackend& backend_;
  std::unique_ptr<FakeDocuments> staged_;
};

void FakeBackend::SetFreeBytes(uint64_t bytes) {
  const MutexLock lock(&mutex_);
  free_bytes_ = bytes;
}

void FakeBackend::SetBytesPerToken(uint64_t bytes) {
  const MutexLock lock(&mutex_);
  bytes_per_token_ = bytes;
}

void FakeBackend::SetScanBytesPerDocument(uint64_t bytes) {
  const MutexLock lock(&mutex_);
  scan_bytes_per_document_ = bytes;
}

void FakeBackend::SetHealth(absl::Status health) {
  const MutexLock lock(&mutex_);
  health_ = std::move(health);
}

void FakeBackend::FailLoads(absl::Status status) {
  const MutexLock lock(&mutex_);
  load_status_ = std::move(status);
}

void FakeBackend::OnLoad(std::function<void()> hook) {
  const MutexLock lock(&mutex_);
  on_load_ = std::move(hook);
}

void FakeBackend::OnTopK(std::function<absl::Status(absl::Span<const Query>)> hook) {
  const MutexLock lock(&mutex_);
  on_top_k_ = std::move(hook);
}

void FakeBackend::OnAlign(std::function<absl::Status()> hook) {
  const MutexLock lock(&mutex_);
  on_align_ = std::move(hook);
}

void FakeBackend::FailExecutors(absl::Status status) {
  const MutexLock lock(&mutex_);
  executor_status_ = std::move(status);
}

void FakeBackend::FailAppendables(absl::Status status) {
  const MutexLock lock(&mutex_);
  appendable_status_ = std::move(status);
}

void FakeBackend::FailAppends(absl::Status status) {
  const MutexLock lock(&mutex_);
  append_status_ = std::move(status);
}

void FakeBackend::FailCodeAppends(absl::Status status) {
  const MutexLock lock(&mutex_);
  code_append_status_ = std::move(status);
}

void FakeBackend::OnCreateAppendable(std::function<void()> hook) {
  const MutexLock lock(&mutex_);
  on_create_appendable_ = std::move(hook);
}

void FakeBackend::OnAppend(std::function<void()> hook) {
  const MutexLock lock(&mutex_);
  on_append_ = std::move(hook);
}

void FakeBackend::Close() {
  const MutexLock lock(&mutex_);
  closed_ = true;
}

void FakeBackend::Open() {
  const MutexLock lock(&mutex_);
  closed_ = false;
  changed_.NotifyAll();
}

bool FakeBackend::WaitForCalls(size_t count) {
  MutexLock lock(&mutex_);
  const auto deadline = std::chrono::steady_clock::now() + kTestLimit;
  while (calls_.size() < count && changed_.WaitUntil(lock, deadline)) {
  }
  return calls_.size() >= count;
}

std::vector<FakeBackend::Call> FakeBackend::calls() const {
  const MutexLock lock(&mutex_);
  return calls_;
}

int64_t FakeBackend::num_loads() const {
  const MutexLock lock(&mutex_);
  return static_cast<int64_t>(loads_.size());
}

std::vector<FakeBackend::LoadCall> FakeBackend::loads() const {
  const MutexLock lock(&mutex_);
  return loads_;
}

int64_t FakeBackend::num_documents_alive() const { return alive_->load(); }

ExecutorOptions FakeBackend::executor_options() const {
  const MutexLock lock(&mutex_);
  return executor_options_;
}

absl::StatusOr<size_t> FakeBackend::FreeBytes() const {
  const MutexLock lock(&mutex_);
  return free_bytes_;
}

MemoryNeed FakeBackend::BytesNeeded(ScalarType, int32_t, int64_t, int64_t num_tokens, Tier tier) const {
  const MutexLock lock(&mutex_);
  const uint64_t bytes = bytes_per_token_ * static_cast<uint64_t>(num_tokens);
  switch (tier) {
    case Tier::kDevice:
      return {.device_bytes = bytes};
    case Tier::kHost:
      return {.host_bytes = bytes};
    case Tier::kDisk:
      return {};
  }
  return {};
}

absl::StatusOr<std::unique_ptr<Documents>> FakeBackend::Load(const DocumentsView& documents, Tier tier,
                                                             std::shared_ptr<const void>) {
  std::function<void()> hook;
  {
    const MutexLock lock(&mutex_);
    loads_.push_back({tier, documents.num_documents});
    hook = on_load_;
  }
  if (hook != nullptr) hook();
  const MemoryNeed need =
      BytesNeeded(documents.type, documents.dim, documents.num_documents, documents.num_tokens(), tier);
  const MutexLock lock(&mutex_);
  if (!load_status_.ok()) return load_status_;
  return std::make_unique<FakeDocuments>(documents, need, alive_);
}

MemoryNeed FakeBackend::CodeBytesNeeded(const CodeShape&, int planes, int64_t, int64_t num_tokens) const {
  return {.device_bytes = static_cast<size_t>(num_tokens * planes)};
}

size_t FakeBackend::ScanBytesNeeded(const CodeShape&, int64_t num_documents) const {
  const MutexLock lock(&mutex_);
  return scan_bytes_per_document_ * static_cast<uint64_t>(num_documents);
}

absl::StatusOr<std::unique_ptr<LoadedCodes>> FakeBackend::LoadCodes(const CodesView& codes, int planes,
                                                                    std::shared_ptr<const void>) {
  return std::make_unique<FakeCodes>(codes, planes);
}

absl::StatusOr<std::shared_ptr<AppendableDocuments>> FakeBackend::CreateAppendable(const AppendableShape& shape) {
  if (absl::Status status = ValidateAppendableShape(shape); !status.ok()) return status;
  std::function<void()> hook;
  {
    const MutexLock lock(&mutex_);
    hook = on_create_appendable_;
  }
  if (hook != nullptr) hook();
  const MutexLock lock(&mutex_);
  if (!appendable_status_.ok()) return appendable_status_;
  const uint64_t needed = bytes_per_token_ * static_cast<uint64_t>(shape.max_tokens);
  if (needed > free_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("room for documents takes ", needed, " bytes; ", free_bytes_, " are free"));
  }
  return std::make_shared<FakeAppendable>(this, shape);
}

absl::StatusOr<std::shared_ptr<AppendableCodes>> FakeBackend::CreateAppendableCodes(const AppendableCodesShape& shape) {
  if (absl::Status status = ValidateAppendableCodesShape(shape); !status.ok()) return status;
  return std::make_shared<FakeAppendableCodes>(this, shape);
}

absl::StatusOr<std::unique_ptr<Executor>> FakeBackend::CreateExecutor(const ExecutorOptions& options) {
  const MutexLock lock(&mutex_);
  executor_options_ = options;
  if (!executor_status_.ok()) return executor_status_;
  return std::make_unique<FakeExecutor>(this);
}

absl::Status FakeBackend::Health() const {
  const MutexLock lock(&mutex_);
  return health_;
}

}  // namespace maxsim::test
