#include "base/unique_json.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/json_events.h"
#include "base/text.h"
#include "nlohmann/json.hpp"

namespace maxsim {
namespace {

using nlohmann::json;

class UniqueEvents : public JsonEvents {
 public:
  explicit UniqueEvents(int max_depth) : JsonEvents(max_depth) {}

  json TakeValue() { return std::move(root_); }
  const std::string& repeated_key() const { return repeated_key_; }

 private:
  // A container that has not ended yet. `container` stays valid while the container is open, because only the
  // innermost container grows.
  struct Open {
    json* container = nullptr;
    json* member = nullptr;  // of an object: the place of the value that follows its key
    std::string key;
  };

  json* Place(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Open& open = open_.back();
    if (open.container->is_object()) return &(*open.member = std::move(value));
    open.container->push_back(std::move(value));
    return &open.container->back();
  }

  bool Add(json value) {
    Place(std::move(value));
    return true;
  }

  void Push(json container) {
    Open open;
    open.container = Place(std::move(container));
    open_.push_back(std::move(open));
  }

  bool Value(std::string_view) override { return Add(nullptr); }  // every other value has an event of its own
  bool OnBool(bool value) override { return Add(value); }
  // nlohmann's own parser makes numbers unsigned if they are not negative.
  bool OnInteger(int64_t value) override { return value < 0 ? Add(value) : Add(static_cast<uint64_t>(value)); }
  bool OnLargeInteger(uint64_t value) override { return Add(value); }
  bool OnFloat(double value) override { return Add(value); }
  bool OnString(std::string& value) override { return Add(std::move(value)); }
  bool OnStartObject() override {
    Push(json::object());
    return true;
  }
  bool OnStartArray() override {
    Push(json::array());
    return true;
  }
  bool OnKey(std::string& key) override {
    Open& object = open_.back();
    object.key = key;
    const auto [member, is_new] = object.container->emplace(key, nullptr);
    object.member = &*member;
    if (is_new) return true;
    repeated_key_ = Path();
    return Fail(Cat("key ", Quote(repeated_key_), " appears twice in one object"));
  }
  bool OnEndObject() override { return Close(); }
  bool OnEndArray() override { return Close(); }

  bool Close() {
    open_.pop_back();
    return true;
  }

  // Returns the path of the value that is being read.
  std::string Path() const {
    std::string path;
    for (const Open& open : open_) {
      if (open.container->is_object()) {
        path += Cat(path.empty() ? "" : ".", open.key);
      } else {
        path += Cat("[", open.container->size() - 1, "]");
      }
    }
    return path;
  }

  json root_;
  std::vector<Open> open_;
  std::string repeated_key_;
};

}  // namespace

absl::StatusOr<json> ParseUniqueJson(std::string_view text, int max_depth, std::string* repeated_key) {
  UniqueEvents events(max_depth);
  const absl::Status status = events.Parse(text);
  if (repeated_key != nullptr) *repeated_key = events.repeated_key();
  if (!status.ok()) return status;
  return events.TakeValue();
}

}  // namespace maxsim
