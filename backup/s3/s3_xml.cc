#include "backup/s3/s3_xml.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"

namespace maxsim::backup {
namespace {

constexpr size_t kMaxCodeBytes = 64;

absl::Status WrongXml(const char* problem, size_t position) {
  return absl::DataLossError(
      Cat("the store's answer is not the XML that it should be: ", problem, " at byte ", position));
}

// Appends the character of this number as UTF-8. Returns false if there is no such character.
bool AppendCharacter(uint32_t number, std::string& out) {
  if (number == 0 || number > 0x10ffff || (number >= 0xd800 && number < 0xe000)) return false;
  if (number < 0x80) {
    out += static_cast<char>(number);
  } else if (number < 0x800) {
    out += static_cast<char>(0xc0 | (number >> 6));
    out += static_cast<char>(0x80 | (number & 0x3f));
  } else if (number < 0x10000) {
    out += static_cast<char>(0xe0 | (number >> 12));
    out += static_cast<char>(0x80 | ((number >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (number & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (number >> 18));
    out += static_cast<char>(0x80 | ((number >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((number >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (number & 0x3f));
  }
  return true;
}

// Appends the character that the entity `name` stands for, such as & for "amp" and for "#38". Returns false if the
// entity is unknown.
bool AppendEntity(std::string_view name, std::string& out) {
  constexpr std::pair<std::string_view, char> kNamed[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [known, character] : kNamed) {
    if (name != known) continue;
    out += character;
    return true;
  }
  if (name.size() < 2 || name.size() > 8 || name[0] != '#') return false;
  uint32_t number = 0;
  const bool is_hex = name[1] == 'x';
  const std::string digits(name.substr(is_hex ? 2 : 1));
  if (digits.empty() || !absl::ascii_isxdigit(static_cast<unsigned char>(digits[0]))) return false;
  if (is_hex ? !absl::SimpleHexAtoi(digits, &number) : !absl::SimpleAtoi(digits, &number)) return false;
  return AppendCharacter(number, out);
}

struct OpenElement {
  std::string path;
  std::string name;  // as it stands in the text, with its prefix
  std::string text = {};
};

// Appends the text between two tags to `out`, with its entities decoded. Returns false if an entity is unknown.
bool AppendText(std::string_view raw, std::string& out) {
  while (!raw.empty()) {
    const size_t begin = std::min(raw.find('&'), raw.size());
    out.append(raw.substr(0, begin));
    raw.remove_prefix(begin);
    if (raw.empty()) break;
    const size_t end = raw.find(';');
    if (end == std::string_view::npos || !AppendEntity(raw.substr(1, end - 1), out)) return false;
    raw.remove_prefix(end + 1);
  }
  return true;
}

// Returns the position of the '>' that ends the tag at `begin`, or npos if there is none. Skips a '>' in the value of
// an attribute.
size_t EndOfTag(std::string_view text, size_t begin) {
  char quote = '\0';
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '>') {
      return i;
    }
  }
  return std::string_view::npos;
}

bool IsNameEnd(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '/'; }

}  // namespace

absl::Status ReadXml(std::string_view text, XmlVisitor visit) {
  std::vector<OpenElement> open;
  bool has_root = false;
  size_t at = 0;
  const auto close = [&] {
    visit(open.back().path, open.back().text);
    open.pop_back();
  };
  while (at < text.size()) {
    const size_t tag = std::min(text.find('<', at), text.size());
    const std::string_view raw = text.substr(at, tag - at);
    if (open.empty()) {
      const bool is_blank = std::all_of(raw.begin(), raw.end(), [](unsigned char c) { return absl::ascii_isspace(c); });
      if (!is_blank && !(at == 0 && raw == "\xef\xbb\xbf")) return WrongXml("text outside of an element", at);
    } else if (!AppendText(raw, open.back().text)) {
      return WrongXml("an unknown entity", at);
    }
    if (tag == text.size()) break;
    const std::string_view rest = text.substr(tag);
    if (rest.starts_with("<?") || rest.starts_with("<!--")) {
      const std::string_view ending = rest[1] == '?' ? "?>" : "-->";
      const size_t end = rest.find(ending, 2);
      if (end == std::string_view::npos) return WrongXml("a comment without an end", tag);
      at = tag + end + ending.size();
      continue;
    }
    if (rest.starts_with("<!")) return WrongXml("a document type or CDATA", tag);
    const size_t end = EndOfTag(text, tag);
    if (end == std::string_view::npos) return WrongXml("a tag without an end", tag);
    std::string_view inside = text.substr(tag + 1, end - tag - 1);
    at = end + 1;
    const bool ends = inside.starts_with("/");
    if (ends) inside.remove_prefix(1);
    const bool is_empty = !ends && inside.ends_with("/");
    const std::string_view name =
        inside.substr(0, static_cast<size_t>(std::find_if(inside.begin(), inside.end(), IsNameEnd) - inside.begin()));
    if (name.empty()) return WrongXml("a tag without a name", tag);
    if (ends) {
      if (open.empty() || open.back().name != name) return WrongXml("the end of another element", tag);
      close();
      continue;
    }
    if (open.empty() && std::exchange(has_root, true)) return WrongXml("a second root", tag);
    if (open.size() >= kMaxXmlDepth) return WrongXml("elements nested too deeply", tag);
    const std::string_view local = name.substr(name.find(':') + 1);  // npos + 1 is 0
    open.push_back(
        {.path = open.empty() ? std::string(local) : Cat(open.back().path, "/", local), .name = std::string(name)});
    if (is_empty) close();
  }
  if (!open.empty()) return WrongXml("an element without an end", text.size());
  return has_root ? absl::OkStatus() : WrongXml("no element", 0);
}

std::string ErrorCode(std::string_view text) {
  std::string code;
  const absl::Status status = ReadXml(text, [&](std::string_view path, const std::string& value) {
    if (path == "Error/Code") code = value;
  });
  const auto is_allowed = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_'; };
  const bool is_code = code.size() <= kMaxCodeBytes && std::all_of(code.begin(), code.end(), is_allowed);
  return status.ok() && is_code ? code : "";
}

absl::StatusOr<ObjectPage> ReadObjectPage(std::string_view text) {
  ObjectPage page;
  StoredObject object;
  bool has_size = false, is_truncated = false, is_list = false;
  std::string problem;
  const absl::Status status = ReadXml(text, [&](std::string_view path, const std::string& value) {
    if (path == "ListBucketResult/Contents/Key") {
      object.key = value;
    } else if (path == "ListBucketResult/Contents/Size") {
      has_size = absl::SimpleAtoi(value, &object.num_bytes);
    } else if (path == "ListBucketResult/Contents") {
      if (object.key.empty() || !has_size) problem = "an object without a key or a size";
      page.objects.push_back(std::exchange(object, {}));
      has_size = false;
    } else if (path == "ListBucketResult/IsTruncated") {
      is_truncated = value == "true";
    } else if (path == "ListBucketResult/NextContinuationToken") {
      page.next = value;
    } else if (path == "ListBucketResult") {
      is_list = true;
    }
  });
  if (!status.ok()) return status;
  if (!is_list) problem = "no list of objects";
  if (is_truncated && page.next.empty()) problem = "a list without the token of its next page";
  if (!problem.empty()) return absl::DataLossError(Cat("the store answers with ", problem));
  if (!is_truncated) page.next.clear();
  return page;
}

absl::StatusOr<std::string> ReadUploadId(std::string_view text) {
  std::string id;
  const absl::Status status = ReadXml(text, [&](std::string_view path, const std::string& value) {
    if (path == "InitiateMultipartUploadResult/UploadId") id = value;
  });
  if (!status.ok()) return status;
  if (id.empty()) return absl::DataLossError("the store answers with no id of an upload");
  return id;
}

std::string CompleteUploadXml(const std::vector<std::string>& etags) {
  std::string xml = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < etags.size(); ++i) {
    const std::string etag = absl::StrReplaceAll(etags[i], {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
    xml += Cat("<Part><PartNumber>", i + 1, "</PartNumber><ETag>", etag, "</ETag></Part>");
  }
  return xml + "</CompleteMultipartUpload>";
}

}  // namespace maxsim::backup
