// Counts a tenant's use of the server, and enforces its quotas.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace maxsim::service {

// 0 means no quota.
struct TenantQuotas {
  uint64_t token_pairs_per_second = 0;
  uint64_t token_pairs_burst = 0;
  uint64_t documents = 0;  // in each collection that the tenant writes to
  uint64_t bytes = 0;      // of token vectors, in each of these collections
  uint64_t requests_in_flight = 0;

  friend bool operator==(const TenantQuotas&, const TenantQuotas&) = default;
};

// Which quota refused a call.
enum class TenantQuota : uint8_t { kTokenPairs, kDocuments, kBytes, kRequestsInFlight };

// Returns a quota's name in token files, such as "token_pairs_per_second".
std::string_view Name(TenantQuota quota);

// Returns RESOURCE_EXHAUSTED with the reason TENANT_QUOTA, about the field "quota.NAME". If `retry_after` is not zero,
// adds RetryInfo with this time.
absl::Status QuotaError(TenantQuota quota, std::string_view problem, absl::Duration retry_after);

// Returns the quota of an error of QuotaError; nullopt for any other.
std::optional<TenantQuota> QuotaOf(const absl::Status& status);
inline bool IsQuotaError(const absl::Status& status) { return QuotaOf(status).has_value(); }

// The most that a write adds to a collection.
struct WrittenAmount {
  uint64_t documents = 0;
  uint64_t bytes = 0;  // of token vectors
};

// The usage of a tenant, shared by all calls with any of its tokens. Kept when token files are read again. The quotas
// are arguments, because they belong to the call's token. Thread-safe.
class TenantUsage {
 public:
  // `label` is the tenant's value of the label "tenant" in metrics.
  explicit TenantUsage(std::string label) : label_(std::move(label)) {}

  const std::string& label() const { return label_; }

  // Takes a place among the tenant's requests in flight, which is freed when its last copy is destroyed. The place may
  // outlive this object. Returns the error of QuotaError if no place is free.
  absl::StatusOr<std::shared_ptr<const void>> TakeRequest(const TenantQuotas& quotas);

  // Adds a write that has begun. Its amount counts until the last copy of the result is destroyed, which may be after
  // this object is destroyed.
  std::shared_ptr<const void> BeginWrite(const std::string& collection, const WrittenAmount& amount);
  // Returns an error if the tenant's stored documents in a collection, and the writes that have begun, together exceed
  // its quotas. `stored` must be counted after those writes have begun.
  absl::Status CheckWrites(const std::string& collection, const WrittenAmount& stored, const TenantQuotas& quotas);

  // Returns an error if earlier calls have used up the token pairs. Its RetryInfo says when there will be some again.
  absl::Status CheckTokenPairs(const TenantQuotas& quotas, absl::Time now);
  // Charges a call that is about to be scored, or returns the error of CheckTokenPairs. If any pairs are left, one call
  // may take more than are left.
  absl::Status ChargeTokenPairs(uint64_t num_pairs, const TenantQuotas& quotas, absl::Time now);
  // Charges a call that has been scored already.
  void AddTokenPairs(uint64_t num_pairs, const TenantQuotas& quotas, absl::Time now);
  // Gives back what a call was charged that was then not scored.
  void ReturnTokenPairs(uint64_t num_pairs);

 private:
  // Refills the bucket. It never holds more than the burst.
  void Refill(const TenantQuotas& quotas, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckLevel(const TenantQuotas& quotas) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Writes in progress, by collection. Shared with them.
  struct Writes {
    Mutex mutex;
    std::map<std::string, WrittenAmount> by_collection ABSL_GUARDED_BY(mutex);
  };

  const std::string label_;
  const std::shared_ptr<Writes> writes_ = std::make_shared<Writes>();
  const std::shared_ptr<std::atomic<uint64_t>> num_in_flight_ = std::make_shared<std::atomic<uint64_t>>(0);
  Mutex mutex_;
  double used_pairs_ ABSL_GUARDED_BY(mutex_) = 0;  // above 0 by what the bucket lacks to be full
  absl::Time refilled_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace maxsim::service
