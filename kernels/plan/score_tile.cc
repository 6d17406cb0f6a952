#include "kernels/plan/score_tile.h"

#include <string>

namespace maxsim {
std::string Name(ScoreTile tile) {
  switch (tile) {
    case ScoreTile::kRows32Narrow:
      return "rows32_narrow";
    case ScoreTile::kRows32:
      return "rows32";
    case ScoreTile::kRows64:
      return "rows64";
    case ScoreTile::kRows128:
      return "rows128";
    case ScoreTile::kWide128:
      return "wide128";
    case ScoreTile::kWide256:
      return "wide256";
    case ScoreTile::kStream32:
      return "stream32";
    case ScoreTile::kDeep128:
      return "deep128";
    case ScoreTile::kDeep256:
      return "deep256";
    case ScoreTile::kResidual32:
      return "residual32";
  }
  return "?";
}

}  // namespace maxsim
