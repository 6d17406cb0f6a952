// A backend that loads all documents into one tier (device memory, host memory or disk), so that the contract can be
// tested for each tier.
#pragma once

#include <memory>
#include <utility>

#include "kernels/maxsim.h"

namespace maxsim::test {

// Forwards all calls to `backend`, which must outlive this object, but replaces the requested tier by `tier`.
// AppendableDocuments have no tier and are passed on unchanged.
class TierBackend final : public Backend {
 public:
  TierBackend(Backend& backend, Tier tier) : backend_(backend), tier_(tier) {}

  const BackendInfo& info() const override { return backend_.info(); }
  absl::StatusOr<size_t> FreeBytes() const override { return backend_.FreeBytes(); }
  MemoryNeed BytesNeeded(ScalarType type, int32_t dim, int64_t num_documents, int64_t num_tokens, Tier) const override {
    return backend_.BytesNeeded(type, dim, num_documents, num_tokens, tier_);
  }
  MemoryNeed CodebookBytesNeeded(ScalarType type, int32_t dim, int64_t num_centroids) const override {
    return backend_.CodebookBytesNeeded(type, dim, num_centroids);
  }
  absl::StatusOr<std::unique_ptr<Documents>> Load(const DocumentsView& documents, Tier,
                                                  std::shared_ptr<const void> keep_alive) override {
    return backend_.Load(documents, tier_, std::move(keep_alive));
  }
  absl::StatusOr<std::shared_ptr<AppendableDocuments>> CreateAppendable(const AppendableShape& shape) override {
    return backend_.CreateAppendable(shape);
  }
  absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options) override {
    return backend_.CreateExecutor(options);
  }
  absl::Status Health() const override { return backend_.Health(); }

 private:
  Backend& backend_;
  const Tier tier_;
};

}  // namespace maxsim::test
