// Serves the console, a web page for trying searches: the page at /, its files and its recorded questions below
// /console/. Internal to server/http.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/http/transport/transport.h"

namespace maxsim::http {

inline constexpr char kQuestionsPath[] = "/console/questions.json";

// The class is thread-safe once it is constructed.
class Console {
 public:
  // Reads the file of recorded questions, once. `questions_file` is "" if there is none. Errors name the key
  // http.console_questions.
  static absl::StatusOr<Console> Open(const std::string& questions_file);

  // Returns whether the console has an answer for a GET of the path.
  bool Knows(std::string_view path) const;

  // Answers a GET or HEAD of a known path. The caller must have authenticated a request for kQuestionsPath; the other
  // files hold no data.
  Response Answer(const Request& request) const;

 private:
  std::string questions_;  // the answer's body
};

}  // namespace maxsim::http
