#include "server/service/tenants/tenant_usage.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "client/status.h"

namespace maxsim::service {
namespace {

// Requests take milliseconds, so a place is soon free.
constexpr absl::Duration kInFlightRetryDelay = absl::Milliseconds(100);

// The minimum retry delay. A client that comes back at the very moment at which a pair is free would often be a little
// early.
constexpr absl::Duration kShortestRetryDelay = absl::Milliseconds(1);

// The maximum retry delay, for a client that overdrew a slow bucket by far.
constexpr absl::Duration kLongestRetryDelay = absl::Hours(24);

std::string FieldOfQuota(TenantQuota quota) { return Cat("quota.", Name(quota)); }

}  // namespace

std::string_view Name(TenantQuota quota) {
  switch (quota) {
    case TenantQuota::kTokenPairs:
      return "token_pairs_per_second";
    case TenantQuota::kDocuments:
      return "documents";
    case TenantQuota::kBytes:
      return "bytes";
    case TenantQuota::kRequestsInFlight:
      break;
  }
  return "requests_in_flight";
}

absl::Status QuotaError(TenantQuota quota, std::string_view problem, absl::Duration retry_after) {
  absl::Status status = client::FieldError(absl::StatusCode::kResourceExhausted, client::kReasonTenantQuota,
                                           FieldOfQuota(quota), problem);
  if (retry_after > absl::ZeroDuration()) client::SetRetryAfter(retry_after, status);
  return status;
}

std::optional<TenantQuota> QuotaOf(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status) || client::ReasonOf(status) != client::kReasonTenantQuota) return std::nullopt;
  const std::string field = client::FieldOf(status);
  for (const TenantQuota quota : {TenantQuota::kTokenPairs, TenantQuota::kDocuments, TenantQuota::kBytes}) {
    if (field == FieldOfQuota(quota)) return quota;
  }
  return TenantQuota::kRequestsInFlight;
}

absl::StatusOr<std::shared_ptr<const void>> TenantUsage::TakeRequest(const TenantQuotas& quotas) {
  const uint64_t before = num_in_flight_->fetch_add(1);
  std::shared_ptr<const void> place(num_in_flight_.get(), [count = num_in_flight_](const void*) { --*count; });
  if (quotas.requests_in_flight == 0 || before < quotas.requests_in_flight) return place;
  return QuotaError(TenantQuota::kRequestsInFlight,
                    Cat(quotas.requests_in_flight, " requests are in progress, which is the limit"),
                    kInFlightRetryDelay);
}

std::shared_ptr<const void> TenantUsage::BeginWrite(const std::string& collection, const WrittenAmount& amount) {
  const auto add = [](Writes& writes, const std::string& name, const WrittenAmount& begun, bool ends) {
    MutexLock lock(&writes.mutex);
    WrittenAmount& of_collection = writes.by_collection[name];
    if (ends) {
      of_collection.documents -= begun.documents;
      of_collection.bytes -= begun.bytes;
      if (of_collection.documents == 0 && of_collection.bytes == 0) writes.by_collection.erase(name);
    } else {
      of_collection.documents += begun.documents;
      of_collection.bytes += begun.bytes;
    }
  };
  // Everything that allocates comes before the amount is added.
  struct Write {
    std::shared_ptr<Writes> writes;
    std::string collection;
    WrittenAmount amount;
    bool has_begun = false;
  };
  const std::shared_ptr<Write> write(new Write{writes_, collection, amount}, [add](Write* ended) {
    if (ended->has_begun) add(*ended->writes, ended->collection, ended->amount, /*ends=*/true);
    delete ended;
  });
  add(*writes_, collection, amount, /*ends=*/false);
  write->has_begun = true;
  return write;
}

absl::Status TenantUsage::CheckWrites(const std::string& collection, const WrittenAmount& stored,
                                      const TenantQuotas& quotas) {
  WrittenAmount begun;
  {
    MutexLock lock(&writes_->mutex);
    const auto found = writes_->by_collection.find(collection);
    if (found != writes_->by_collection.end()) begun = found->second;
  }
  const auto check = [&](TenantQuota quota, uint64_t in_collection, uint64_t in_writes, uint64_t limit) {
    if (limit == 0 || in_collection + in_writes <= limit) return absl::OkStatus();
    return QuotaError(
        quota,
        Cat("collection ", Quote(collection), " has ", in_collection, " of the tenant, and writes in progress have ",
            in_writes, "; must be at most ", limit, " together: delete documents first"),
        absl::ZeroDuration());
  };
  absl::Status status = check(TenantQuota::kDocuments, stored.documents, begun.documents, quotas.documents);
  return status.ok() ? check(TenantQuota::kBytes, stored.bytes, begun.bytes, quotas.bytes) : status;
}

void TenantUsage::Refill(const TenantQuotas& quotas, absl::Time now) {
  if (now <= refilled_) return;
  const double seconds = absl::ToDoubleSeconds(now - refilled_);
  used_pairs_ = std::max(0.0, used_pairs_ - seconds * static_cast<double>(quotas.token_pairs_per_second));
  refilled_ = now;
}

absl::Status TenantUsage::CheckLevel(const TenantQuotas& quotas) const {
  const double missing = used_pairs_ - static_cast<double>(quotas.token_pairs_burst);
  if (missing < 0) return absl::OkStatus();
  const absl::Duration wait = absl::Seconds(missing / static_cast<double>(quotas.token_pairs_per_second));
  return QuotaError(
      TenantQuota::kTokenPairs,
      Cat("the ", quotas.token_pairs_per_second, " token pairs (query tokens x document tokens) a second, ",
          "with a burst of ", quotas.token_pairs_burst, ", are used up"),
      std::clamp(wait, kShortestRetryDelay, kLongestRetryDelay));
}

absl::Status TenantUsage::CheckTokenPairs(const TenantQuotas& quotas, absl::Time now) {
  return ChargeTokenPairs(0, quotas, now);
}

absl::Status TenantUsage::ChargeTokenPairs(uint64_t num_pairs, const TenantQuotas& quotas, absl::Time now) {
  if (quotas.token_pairs_per_second == 0) return absl::OkStatus();
  MutexLock lock(&mutex_);
  Refill(quotas, now);
  absl::Status status = CheckLevel(quotas);
  if (status.ok()) used_pairs_ += static_cast<double>(num_pairs);
  return status;
}

void TenantUsage::ReturnTokenPairs(uint64_t num_pairs) {
  MutexLock lock(&mutex_);
  used_pairs_ = std::max(0.0, used_pairs_ - static_cast<double>(num_pairs));
}

void TenantUsage::AddTokenPairs(uint64_t num_pairs, const TenantQuotas& quotas, absl::Time now) {
  if (quotas.token_pairs_per_second == 0) return;
  MutexLock lock(&mutex_);
  Refill(quotas, now);
  used_pairs_ += static_cast<double>(num_pairs);
}

}  // namespace maxsim::service
