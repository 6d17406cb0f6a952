#include "collection/filters/filter_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/text.h"
#include "collection/field.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kComparisonExpected = "=, !=, <, <=, >, >=, in or not in";
constexpr std::string_view kValueExpected = "a value: a string in double quotes, a number, true or false";
constexpr std::string_view kFilterExpected = "a field, exists, not or (";

bool IsWordStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

struct Token {
  enum class Kind : uint8_t { kEnd, kWord, kString, kNumber, kSymbol, kWrong };
  Kind kind = Kind::kEnd;
  std::string_view text;
  size_t begin = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { Advance(); }

  absl::StatusOr<Filter> Parse() {
    absl::StatusOr<Filter> filter = ParseOr(1);
    if (!filter.ok()) return filter;
    if (token_.kind != Token::Kind::kEnd) return Unexpected("and, or, or the end of the filter");
    return filter;
  }

 private:
  // Reads the next token into token_. Invalid text also becomes a token, so that error messages can show it.
  void Advance() {
    while (at_ < text_.size() && (text_[at_] == ' ' || (text_[at_] >= '\t' && text_[at_] <= '\r'))) ++at_;
    token_ = {Token::Kind::kEnd, {}, at_};
    if (at_ == text_.size()) return;
    const char first = text_[at_];
    size_t end = at_ + 1;
    if (IsWordStart(first)) {
      token_.kind = Token::Kind::kWord;
      while (end < text_.size() && IsWord(text_[end])) ++end;
    } else if (first == '"') {
      while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
      token_.kind = end < text_.size() ? Token::Kind::kString : Token::Kind::kWrong;
      end = std::min(end + 1, text_.size());
    } else if (first == '-' || absl::ascii_isdigit(static_cast<unsigned char>(first))) {
      token_.kind = Token::Kind::kNumber;
      const std::string_view more = "0123456789.eE+-";
      while (end < text_.size() && (more.find(text_[end]) != std::string_view::npos || IsWord(text_[end]))) ++end;
    } else if (std::string_view("()=,<>!").find(first) != std::string_view::npos) {
      token_.kind = Token::Kind::kSymbol;
      const bool may_be_two = first == '<' || first == '>' || first == '!';
      if (may_be_two && end < text_.size() && text_[end] == '=') ++end;
    } else {
      token_.kind = Token::Kind::kWrong;
      while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xc0) == 0x80) ++end;
    }
    token_.text = text_.substr(at_, end - at_);
    at_ = end;
  }

  bool IsWordToken(std::string_view word) const {
    return token_.kind == Token::Kind::kWord && absl::EqualsIgnoreCase(ForStrCat(token_.text), ForStrCat(word));
  }
  bool IsSymbol(std::string_view symbol) const { return token_.kind == Token::Kind::kSymbol && token_.text == symbol; }
  bool TakeWord(std::string_view word) {
    const bool is = IsWordToken(word);
    if (is) Advance();
    return is;
  }
  bool TakeSymbol(std::string_view symbol) {
    const bool is = IsSymbol(symbol);
    if (is) Advance();
    return is;
  }

  // Returns the position of a byte's character, such as "position 8: ".
  std::string Position(size_t at) const {
    const auto is_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
    const auto* const end = text_.data() + at;
    return Cat("position ", 1 + std::count_if(text_.data(), end, is_character), ": ");
  }
  absl::Status Unexpected(std::string_view expected) const {
    const bool is_open_string = token_.kind == Token::Kind::kWrong && token_.text[0] == '"';
    return Invalid(Position(token_.begin), "found ",
                   token_.kind == Token::Kind::kEnd ? std::string("the end of the filter")
                   : is_open_string                 ? Cat("a string that does not end, ", Quote(token_.text.substr(1)))
                   : token_.kind == Token::Kind::kString ? Cat("the string ", Printable(token_.text, 80))
                                                         : Quote(token_.text),
                   ", expected ", expected);
  }

  // `depth` is the number of parentheses and negations that are open.
  absl::StatusOr<Filter> ParseOr(int depth) {
    return ParseList(
        depth, "or", [this](int of_member) { return ParseAnd(of_member); }, &Filter::Or);
  }
  absl::StatusOr<Filter> ParseAnd(int depth) {
    return ParseList(
        depth, "and", [this](int of_member) { return ParseOne(of_member); }, &Filter::And);
  }

  template <typename ParseMember>
  absl::StatusOr<Filter> ParseList(int depth, std::string_view word, const ParseMember& parse,
                                   Filter (*make)(std::vector<Filter>)) {
    absl::StatusOr<Filter> first = parse(depth);
    if (!first.ok() || !IsWordToken(word)) return first;
    std::vector<Filter> members;
    members.push_back(*std::move(first));
    while (TakeWord(word)) {
      // Every member adds at least one node, so too many members are refused early, before they take much memory.
      if (++num_members_ > kMaxFilterNodes) return Invalid("the filter has more than ", kMaxFilterNodes, " nodes");
      absl::StatusOr<Filter> next = parse(depth);
      if (!next.ok()) return next;
      members.push_back(*std::move(next));
    }
    return make(std::move(members));
  }

  absl::StatusOr<Filter> ParseOne(int depth) {
    if (depth > kMaxFilterDepth) {
      return Invalid(Position(token_.begin), "the filter is nested deeper than ", kMaxFilterDepth, " levels");
    }
    if (TakeWord("not")) {
      absl::StatusOr<Filter> child = ParseOne(depth + 1);
      if (!child.ok()) return child;
      return Filter::Not(*std::move(child));
    }
    if (TakeSymbol("(")) {
      absl::StatusOr<Filter> filter = ParseOr(depth + 1);
      if (!filter.ok()) return filter;
      if (!TakeSymbol(")")) return Unexpected("and, or, or )");
      return filter;
    }
    if (TakeWord("exists")) {
      if (!TakeSymbol("(")) return Unexpected("( and a field");
      absl::StatusOr<std::string> field = TakeField("a field");
      if (!field.ok()) return field.status();
      if (!TakeSymbol(")")) return Unexpected(")");
      return Filter::Exists(*std::move(field));
    }
    absl::StatusOr<std::string> field = TakeField(kFilterExpected);
    if (!field.ok()) return field.status();
    return ParseComparison(*std::move(field));
  }

  absl::StatusOr<std::string> TakeField(std::string_view expected) {
    if (token_.kind != Token::Kind::kWord || IsFilterWord(token_.text)) return Unexpected(expected);
    std::string field(token_.text);
    Advance();
    return field;
  }

  absl::StatusOr<Filter> ParseComparison(std::string field) {
    const bool is_not = TakeWord("not");
    if (TakeWord("in")) {
      absl::StatusOr<Filter> in = ParseIn(std::move(field));
      if (!in.ok() || !is_not) return in;
      return Filter::Not(*std::move(in));
    }
    if (is_not) return Unexpected("in");
    const std::string symbol = token_.kind == Token::Kind::kSymbol ? std::string(token_.text) : "";
    const bool is_low = symbol == ">" || symbol == ">=";
    const bool is_high = symbol == "<" || symbol == "<=";
    if (!is_low && !is_high && symbol != "=" && symbol != "!=") return Unexpected(kComparisonExpected);
    Advance();
    absl::StatusOr<FilterValue> value = TakeValue();
    if (!value.ok()) return value.status();
    if (symbol == "=") return Filter::Equals(std::move(field), *std::move(value));
    if (symbol == "!=") return Filter::Not(Filter::Equals(std::move(field), *std::move(value)));
    FilterBound bound{*std::move(value), symbol.size() == 2};
    return is_low ? Filter::Range(std::move(field), std::move(bound), std::nullopt)
                  : Filter::Range(std::move(field), std::nullopt, std::move(bound));
  }

  absl::StatusOr<Filter> ParseIn(std::string field) {
    if (!TakeSymbol("(")) return Unexpected("( and a list of values");
    std::vector<FilterValue> values;
    do {
      if (values.size() == kMaxFilterValues) return Invalid("the filter has more than ", kMaxFilterValues, " values");
      absl::StatusOr<FilterValue> value = TakeValue();
      if (!value.ok()) return value.status();
      values.push_back(*std::move(value));
    } while (TakeSymbol(","));
    if (!TakeSymbol(")")) return Unexpected(", or )");
    return Filter::In(std::move(field), std::move(values));
  }

  absl::StatusOr<FilterValue> TakeValue() {
    const Token token = token_;
    if (TakeWord("true")) return FilterValue(true);
    if (TakeWord("false")) return FilterValue(false);
    if (token.kind != Token::Kind::kString && token.kind != Token::Kind::kNumber) return Unexpected(kValueExpected);
    // Strings and numbers are written as in JSON, so the JSON parser reads them.
    const nlohmann::json json = nlohmann::json::parse(token.text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) {
      return Invalid(Position(token.begin), "found ", Printable(token.text, 80), ", which is not a ",
                     token.kind == Token::Kind::kString ? "string" : "number", " of JSON");
    }
    Advance();
    if (json.is_string()) return FilterValue(json.get<std::string>());
    if (json.is_number_float()) return FilterValue(json.get<double>());
    if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      return FilterValue(static_cast<double>(json.get<uint64_t>()));
    }
    return FilterValue(json.get<int64_t>());
  }

  const std::string_view text_;
  size_t at_ = 0;  // where the token ends
  Token token_;
  size_t num_members_ = 0;
};

std::string FormatNumber(double value) {
  char buffer[32];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  // Without a point or an exponent the text would be an integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string FormatValue(const FilterValue& value) {
  if (const auto* const boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* const integer = std::get_if<int64_t>(&value)) return Cat(*integer);
  if (const auto* const number = std::get_if<double>(&value)) return FormatNumber(*number);
  return nlohmann::json(std::get<std::string>(value)).dump();
}

void AppendIn(const Filter& filter, bool is_not, std::string& text) {
  text += Cat(filter.field, is_not ? " not in (" : " in (");
  for (size_t idx = 0; idx < filter.values.size(); ++idx)
    text += Cat(idx == 0 ? "" : ", ", FormatValue(filter.values[idx]));
  text += ")";
}

void AppendRange(const Filter& filter, std::string& text) {
  if (filter.low.has_value()) {
    text += Cat(filter.field, filter.low->inclusive ? " >= " : " > ", FormatValue(filter.low->value));
  }
  if (filter.low.has_value() && filter.high.has_value()) text += " and ";
  if (filter.high.has_value()) {
    text += Cat(filter.field, filter.high->inclusive ? " <= " : " < ", FormatValue(filter.high->value));
  }
}

bool NeedsParentheses(const Filter& filter, Filter::Kind parent) {
  if (filter.kind == Filter::Kind::kAnd || filter.kind == Filter::Kind::kOr) return true;
  return filter.low.has_value() && filter.high.has_value() && parent != Filter::Kind::kAnd;
}

void Append(const Filter& filter, std::string& text);

void AppendChild(const Filter& child, Filter::Kind parent, std::string& text) {
  const bool needs = NeedsParentheses(child, parent);
  if (needs) text += "(";
  Append(child, text);
  if (needs) text += ")";
}

void AppendNot(const Filter& child, std::string& text) {
  if (child.kind == Filter::Kind::kEquals) {
    text += Cat(child.field, " != ", FormatValue(child.values.front()));
  } else if (child.kind == Filter::Kind::kIn) {
    AppendIn(child, /*is_not=*/true, text);
  } else {
    text += "not ";
    AppendChild(child, Filter::Kind::kNot, text);
  }
}

void Append(const Filter& filter, std::string& text) {
  switch (filter.kind) {
    case Filter::Kind::kAnd:
    case Filter::Kind::kOr:
      for (size_t idx = 0; idx < filter.children.size(); ++idx) {
        if (idx > 0) text += filter.kind == Filter::Kind::kAnd ? " and " : " or ";
        AppendChild(filter.children[idx], filter.kind, text);
      }
      return;
    case Filter::Kind::kNot:
      return AppendNot(filter.children.front(), text);
    case Filter::Kind::kEquals:
      text += Cat(filter.field, " = ", FormatValue(filter.values.front()));
      return;
    case Filter::Kind::kIn:
      return AppendIn(filter, /*is_not=*/false, text);
    case Filter::Kind::kRange:
      return AppendRange(filter, text);
    case Filter::Kind::kExists:
      text += Cat("exists(", filter.field, ")");
      return;
    case Filter::Kind::kInSlots:
      text += Cat("in_slots(", FormatSlotRange(filter.slots), ")");
      return;
  }
}

}  // namespace

absl::StatusOr<Filter> ParseFilter(std::string_view text) {
  if (text.size() > kMaxFilterTextBytes) {
    return Invalid("the filter has ", text.size(), " bytes, the limit is ", kMaxFilterTextBytes);
  }
  if (!IsUtf8(text)) return Invalid("the filter is not UTF-8");
  absl::StatusOr<Filter> filter = Parser(text).Parse();
  if (!filter.ok()) return filter;
  if (absl::Status status = CheckFilter(*filter); !status.ok()) return status;
  return filter;
}

std::string FormatFilter(const Filter& filter) {
  std::string text;
  Append(filter, text);
  return text;
}

}  // namespace maxsim::collection
