-- The function maxsim_rerank of maxsim_rerank.sql for a PostgreSQL without PL/Python. It runs curl on the database's
-- machine for every call. Needs curl there, a superuser, and a database with the encoding UTF8.
--
--   psql -1 -c "SET maxsim.url = 'http://localhost:7071'" -f maxsim_rerank_curl.sql
--
-- - Linux allows a command of 128 KiB, so question and ids together must be shorter. Send vectors as BASE64
--   ({"dtype": "f16", "shape": [20, 128], "data": "..."}), which is a quarter as long as numbers.
-- - It creates a temporary table in every call, which PostgreSQL refuses in a read-only transaction and on a standby.
-- - If the collection has integer ids, replace `text[]` by `bigint[]`, `id text` by `id bigint`, and `result ->> 'id'`
--   by `(result ->> 'id')::bigint`.
CREATE OR REPLACE FUNCTION maxsim_rerank(
  query jsonb, ids text[], top_n integer DEFAULT 10, collection text DEFAULT NULL)
RETURNS TABLE (id text, score double precision)
LANGUAGE plpgsql
-- The function may run a program because it runs with the rights of the superuser who creates it. So the caller's
-- session must not decide how names and the quotes below are read.
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
SET maxsim.url FROM CURRENT
AS $$
DECLARE
  url text := current_setting('maxsim.url') || '/v1/rerank';
  body text := jsonb_strip_nulls(jsonb_build_object(
    'query', query, 'documents', to_jsonb(ids), 'top_n', top_n, 'model', collection))::text;
  -- The shell gets URL and body in single quotes, so that it interprets nothing in them. If maxsimd needs a token, add
  -- -H @FILE, where FILE has the line `Authorization: Bearer TOKEN` and only the database's user may read it. A token in
  -- this text could be read by every role, and by every user of the machine while curl runs.
  command text := format('curl -sS --max-time 10 -H ''Content-Type: application/json'' -d %s %s',
    '''' || replace(body, '''', '''\''''') || '''', '''' || replace(url, '''', '''\''''') || '''');
  answer jsonb;
BEGIN
  IF coalesce(cardinality(ids), 0) = 0 THEN
    RETURN;
  END IF;
  -- Fails if the caller's session already has a table of this name, because that one could have triggers.
  CREATE TEMPORARY TABLE maxsim_rerank_answer (line text);
  -- JSON contains neither of these two control characters, so each line of the answer becomes one row, unchanged.
  EXECUTE format(
    'COPY pg_temp.maxsim_rerank_answer FROM PROGRAM %L
       WITH (FORMAT csv, DELIMITER E''\x01'', QUOTE E''\x02'', ENCODING ''UTF8'')',
    command);
  SELECT string_agg(line, '') FROM pg_temp.maxsim_rerank_answer INTO answer;
  DROP TABLE pg_temp.maxsim_rerank_answer;
  IF answer ? 'error' THEN
    RAISE EXCEPTION 'maxsimd: %', answer ->> 'message';
  END IF;
  RETURN QUERY
    SELECT result ->> 'id', (result ->> 'relevance_score')::double precision
    FROM jsonb_array_elements(answer -> 'results') WITH ORDINALITY AS results (result, rank)
    ORDER BY rank;
END
$$;
REVOKE EXECUTE ON FUNCTION maxsim_rerank FROM PUBLIC; -- GRANT it to the roles that may ask
