#include "server/service/documents/write_claims.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/text.h"
#include "client/status.h"
#include "server/service/selection/filter_message.h"

namespace maxsim::service {
namespace {

// A write takes some milliseconds.
constexpr absl::Duration kClaimRetryDelay = absl::Milliseconds(20);

std::string KeyOfId(int64_t id) { return Cat("i", id); }
std::string KeyOfId(const std::string& id) { return Cat("s", id); }

}  // namespace

// The ids that one write has claimed.
class WriteClaims::Claimed {
 public:
  // `visible` is the serialized filter of the write.
  Claimed(std::shared_ptr<Table> table, std::string visible, int count) : table_(std::move(table)) {
    keys_.reserve(static_cast<size_t>(count));
    MutexLock lock(&table_->mutex);
    const auto filter = table_->filters.try_emplace(std::move(visible), 0).first;
    ++filter->second;
    visible_ = &filter->first;
  }
  ~Claimed() {
    MutexLock lock(&table_->mutex);
    for (const std::string& key : keys_) {
      const auto holders = table_->by_id.find(key);
      if (--holders->second.count == 0) table_->by_id.erase(holders);
    }
    const auto filter = table_->filters.find(*visible_);
    if (--filter->second == 0) table_->filters.erase(filter);
  }
  Claimed(const Claimed&) = delete;
  Claimed& operator=(const Claimed&) = delete;

  // Returns false if a write with another filter holds the id.
  bool Add(std::string key) {
    MutexLock lock(&table_->mutex);
    const auto [holders, is_new] = table_->by_id.try_emplace(key, Holders{visible_, 0});
    if (!is_new && holders->second.visible != visible_) return false;
    ++holders->second.count;
    keys_.push_back(std::move(key));  // has room
    return true;
  }

 private:
  const std::shared_ptr<Table> table_;
  const std::string* visible_ = nullptr;  // a key of table_->filters; elements of the map stay where they are
  std::vector<std::string> keys_;
};

absl::StatusOr<std::shared_ptr<const void>> WriteClaims::ClaimAll(const std::string& collection,
                                                                  const v1::Filter& visible, int count,
                                                                  absl::FunctionRef<std::string(int)> id_of) {
  // A router adds in_slots to some calls of a tenant, and not to others.
  const std::optional<v1::Filter> of_tenant = WithoutSlots(visible);
  auto claimed =
      std::make_shared<Claimed>(table_, of_tenant.has_value() ? of_tenant->SerializeAsString() : std::string(), count);
  for (int i = 0; i < count; ++i) {
    if (claimed->Add(Cat(collection, " ", id_of(i)))) continue;
    // Do not name the id: the client must not learn which ids others write.
    absl::Status status = absl::ResourceExhaustedError("another write of one of these ids is in progress");
    client::SetRetryAfter(kClaimRetryDelay, status);
    return status;
  }
  return std::shared_ptr<const void>(std::move(claimed));
}

absl::StatusOr<std::shared_ptr<const void>> WriteClaims::Claim(const v1::UpsertRequest& request) {
  return ClaimAll(request.collection(), request.visible(), request.documents_size(), [&](int i) {
    const v1::Document& document = request.documents(i);
    return document.has_int_id() ? KeyOfId(document.int_id()) : KeyOfId(document.string_id());
  });
}

absl::StatusOr<std::shared_ptr<const void>> WriteClaims::Claim(const std::string& collection, const v1::Filter& visible,
                                                               collection::IdType id_type,
                                                               absl::Span<const store::Write> writes) {
  return ClaimAll(collection, visible, static_cast<int>(writes.size()), [&](int i) {
    const store::Write& write = writes[static_cast<size_t>(i)];
    return id_type == collection::IdType::kInt64 ? KeyOfId(write.int_id) : KeyOfId(write.string_id);
  });
}

}  // namespace maxsim::service
