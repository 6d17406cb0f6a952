#include "server/http/console.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/console/assets.h"
#include "server/console/questions.h"

namespace maxsim::http {
namespace {

constexpr std::string_view kPrefix = "/console/";

// This policy lets the page load only its own files and call only its own server, and forbids other pages to frame
// it. Even if a document's text were interpreted as markup, that markup could not run scripts or load anything.
constexpr ResponseHeader kPolicy = {
    "Content-Security-Policy",
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"};
constexpr ResponseHeader kNoSniff = {"X-Content-Type-Options", "nosniff"};
constexpr ResponseHeader kNoReferrer = {"Referrer-Policy", "no-referrer"};
// A browser may keep a file, but must ask the server with the file's ETag whether it is still current. So a page of a
// new server never runs a script of an old one.
constexpr ResponseHeader kRevalidate = {"Cache-Control", "no-cache"};
constexpr ResponseHeader kKeepNothing = {"Cache-Control", "no-store"};

// Returns the name of the asset at a path, or "" if there is none.
std::string_view AssetName(std::string_view path) {
  if (path == "/") return "index.html";
  return path.starts_with(kPrefix) ? path.substr(kPrefix.size()) : std::string_view();
}

// Returns whether an If-None-Match header names the ETag. The header may be a list, and its tags may be marked as
// weak, which makes no difference here (RFC 9110, 13.1.2).
bool Matches(const std::string& if_none_match, const std::string& etag) {
  for (absl::string_view one : absl::StrSplit(if_none_match, ',', absl::SkipWhitespace())) {
    one = absl::StripAsciiWhitespace(one);
    if (one == "*" || one == etag || one == absl::StrCat("W/", etag)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<Console> Console::Open(const std::string& questions_file) {
  Console console;
  if (questions_file.empty()) {
    console.questions_ = R"({"questions":[]})";
    return console;
  }
  absl::StatusOr<std::string> questions = console::ReadQuestions(questions_file);
  if (!questions.ok()) {
    return absl::Status(questions.status().code(),
                        absl::StrCat("http.console_questions: ", questions.status().message()));
  }
  console.questions_ = *std::move(questions);
  return console;
}

bool Console::Knows(std::string_view path) const {
  return path == kQuestionsPath || console::FindAsset(AssetName(path)) != nullptr;
}

Response Console::Answer(const Request& request) const {
  if (request.path == kQuestionsPath) {
    return {.content_type = "application/json", .body = questions_ + "\n", .headers = {kKeepNothing, kNoSniff}};
  }
  const console::Asset& asset = *console::FindAsset(AssetName(request.path));
  Response response{.content_type = std::string(asset.content_type),
                    .etag = asset.etag,
                    .headers = {kPolicy, kNoSniff, kNoReferrer, kRevalidate}};
  if (Matches(request.if_none_match, asset.etag)) {
    response.status = 304;
  } else {
    response.body = std::string(asset.bytes);
  }
  return response;
}

}  // namespace maxsim::http
