// Formats the output of `maxsimctl explain`: which document token each query token matched, and how well. Only computes
// text and asks no server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace maxsim::ctl {

struct Explanation {
  std::string query_label;     // id and text, or ""
  std::string document_label;  // id and title
  float score = 0;

  // These vectors have one element for each query token.
  std::vector<uint32_t> matches;             // index of the document token
  std::vector<float> similarities;           // before the weight
  std::vector<float> weights;                // empty: all 1
  std::vector<std::string> query_tokens;     // word pieces; empty: indices are shown
  std::vector<std::string> document_tokens;  // word pieces; empty: shows indices, and no heat map
};

struct ExplainStyle {
  bool color = false;
  bool by_contribution = false;  // sort by weight x similarity, largest first; otherwise the query's order
  int columns = 100;             // the heat map's width
};

// With colour, returns a table that shows similarities as bars on a heat scale, and the document's text, where the
// background of each word piece shows its share of the score. Without colour, returns only the table, in plain
// characters. Word pieces that begin with "##" are joined to the one before.
std::string RenderExplanation(const Explanation& explanation, const ExplainStyle& style);

}  // namespace maxsim::ctl
