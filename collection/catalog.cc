#include "collection/catalog.h"

#include <xxhash.h>

#include <bit>

#include "base/file.h"
#include "base/text.h"
#include "collection/slots.h"
#include "kernels/limits.h"

namespace maxsim::collection {

IdList::IdList(IdType type) : type_(type), ordinals_(0, Hash{this}, Equal{this}) {}

int64_t IdList::size() const {
  return static_cast<int64_t>(type_ == IdType::kInt64 ? ints_.size() : offsets_.size() - 1);
}

absl::Status IdList::Add(std::string_view id) {
  if (id.empty()) return Invalid("an empty id");
  if (static_cast<int64_t>(id.size()) > kMaxIdBytes) {
    return Invalid("id ", Quote(id), ": ", id.size(), " bytes, the limit is ", kMaxIdBytes);
  }
  if (!IsUtf8(id)) return Invalid("id ", Quote(id), " is not UTF-8");
  bytes_ += id;
  offsets_.push_back(static_cast<int64_t>(bytes_.size()));
  absl::Status status = Register();
  if (!status.ok()) {
    offsets_.pop_back();
    bytes_.resize(static_cast<size_t>(offsets_.back()));
  }
  return status;
}

absl::Status IdList::Add(int64_t id) {
  ints_.push_back(id);
  absl::Status status = Register();
  if (!status.ok()) ints_.pop_back();
  return status;
}

absl::Status IdList::Register() {
  const int64_t ordinal = size() - 1;
  const auto [found, inserted] = ordinals_.insert(ordinal);
  if (inserted) return absl::OkStatus();
  return absl::AlreadyExistsError(Cat("id ", Format(ordinal), " is already the id of document ", *found));
}

std::string_view IdList::string_id(int64_t ordinal) const {
  const auto idx = static_cast<size_t>(ordinal);
  return std::string_view(bytes_).substr(static_cast<size_t>(offsets_[idx]),
                                         static_cast<size_t>(offsets_[idx + 1] - offsets_[idx]));
}

std::string IdList::Format(int64_t ordinal) const {
  return type_ == IdType::kInt64 ? Cat(int_id(ordinal)) : Quote(string_id(ordinal));
}

int64_t IdList::num_bytes(int64_t ordinal) const {
  return type_ == IdType::kInt64 ? static_cast<int64_t>(sizeof(int64_t))
                                 : static_cast<int64_t>(string_id(ordinal).size());
}

// The lowest bits of the hash choose an id's slot, so all ids of a small partition have similar lowest bits. The hash
// set also uses the lowest bits, so rotates the slot's bits away.
size_t IdList::Hash::operator()(int64_t ordinal) const {
  constexpr int kSlotBits = std::countr_zero(static_cast<uint32_t>(kNumSlots));
  if (list->type_ == IdType::kInt64) {
    const int64_t id = list->int_id(ordinal);
    return std::rotr(static_cast<size_t>(XXH3_64bits(&id, sizeof(id))), kSlotBits);
  }
  const std::string_view id = list->string_id(ordinal);
  return std::rotr(static_cast<size_t>(XXH3_64bits(id.data(), id.size())), kSlotBits);
}

bool IdList::Equal::operator()(int64_t a, int64_t b) const {
  return list->type_ == IdType::kInt64 ? list->int_id(a) == list->int_id(b) : list->string_id(a) == list->string_id(b);
}

}  // namespace maxsim::collection
