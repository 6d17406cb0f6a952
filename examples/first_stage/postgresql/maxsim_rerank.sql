-- Adds the function maxsim_rerank to a PostgreSQL database: it sends ids to maxsimd and returns their ranking. Needs
-- PL/Python (Debian: postgresql-plpython3-15) and a superuser.
--
--   psql -1 -c 'CREATE EXTENSION IF NOT EXISTS plpython3u' -c "SET maxsim.url = 'http://localhost:7071'" \
--     -f maxsim_rerank.sql
--
-- The function keeps this URL: a role that may call it cannot make it call another one. -1 runs all of this in one
-- transaction. Without it, every role could call a new function until REVOKE ran.
--
-- query       the question: a JSON string, if the server has an encoder, or its token vectors in any form that
--             /v1/rerank takes, such as [[0.1, ...], ...]
-- ids         the candidates' ids in maxsimd; an empty array or NULL gives no rows. If the collection has integer ids,
--             replace `text[]` by `bigint[]`, and `id text` by `id bigint`
-- top_n       largest number of rows
-- collection  its name in maxsimd; not needed if the server has only one
--
-- Returns the `top_n` best documents, best first, and omits ids that maxsimd does not have. If maxsimd refuses the
-- request, the error contains its message.
CREATE OR REPLACE FUNCTION maxsim_rerank(
  query jsonb, ids text[], top_n integer DEFAULT 10, collection text DEFAULT NULL)
RETURNS TABLE (id text, score double precision)
LANGUAGE plpython3u
SET search_path = pg_catalog, pg_temp
SET maxsim.url FROM CURRENT
AS $$
import json
import urllib.error
import urllib.request

if not ids:
    return []
url = plpy.execute("SELECT current_setting('maxsim.url') AS url")[0]["url"]
body = {"query": json.loads(query), "documents": ids, "top_n": top_n}
if collection is not None:
    body["model"] = collection
headers = {"Content-Type": "application/json"}
# If maxsimd needs a token, keep it in a file that only the database's user may read, because every role can read a
# function's text:
#   headers["Authorization"] = "Bearer " + open("/etc/postgresql/maxsimd.token").read().strip()
request = urllib.request.Request(url + "/v1/rerank", json.dumps(body).encode(), headers)
try:
    with urllib.request.urlopen(request, timeout=10) as answer:
        results = json.load(answer)["results"]
except urllib.error.HTTPError as error:
    plpy.error("maxsimd: " + json.load(error)["message"])
except OSError as error:
    plpy.error(f"maxsimd at {url}: {error}")
return [(result["id"], result["relevance_score"]) for result in results]
$$;
REVOKE EXECUTE ON FUNCTION maxsim_rerank FROM PUBLIC; -- GRANT it to the roles that may ask
