// JSON values as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nlohmann/json.hpp"

namespace maxsim::http {

// Returns the text of a value. Bytes that are not UTF-8 become replacement characters.
inline std::string Dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Returns the value of a JSON integer from 0 to 2^64 - 1, or nullopt for any other value, including 3.0.
inline std::optional<uint64_t> Unsigned(const nlohmann::json& number) {
  if (number.is_number_unsigned()) return number.get<uint64_t>();
  if (number.is_number_integer() && number.get<int64_t>() >= 0) return static_cast<uint64_t>(number.get<int64_t>());
  return std::nullopt;
}

// Makes the text of a JSON object, member by member. Answers to calls must use this class, and not nlohmann's arrays
// and objects. Those allocate memory in their destructors, which ends the process if memory has run out. nlohmann's
// scalars do not.
class ObjectText {
 public:
  // Adds a member whose value is a scalar.
  template <typename Scalar>
  ObjectText& Add(std::string_view name, const Scalar& value) {
    return AddText(name, Dump(nlohmann::json(value)));
  }
  // Adds a member whose value is JSON already. `name` needs no escapes.
  ObjectText& AddText(std::string_view name, std::string_view value) {
    text_ += text_.empty() ? "{\"" : ",\"";
    text_ += name;
    text_ += "\":";
    text_ += value;
    return *this;
  }
  std::string Finish() && {
    if (text_.empty()) text_ += '{';
    text_ += '}';
    return std::move(text_);
  }

 private:
  std::string text_;
};

// Returns the text of a list of scalars.
template <typename Scalars>
std::string ListText(const Scalars& values) {
  std::string text = "[";
  for (const auto& value : values) {
    if (text.size() > 1) text += ',';
    text += Dump(nlohmann::json(value));
  }
  text += ']';
  return text;
}

}  // namespace maxsim::http
