//! The tables of pg_catalog, as clients ask for them.

use super::harness::Fixture;

#[test]
fn psql_lists_tables_and_indexes() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, n text UNIQUE, v numeric(10,2) DEFAULT 0 CHECK (v >= 0))");
    client.tag("CREATE INDEX ON t (v)");
    let tables = "SELECT n.nspname as \"Schema\", c.relname as \"Name\", CASE c.relkind WHEN 'r' THEN 'table' WHEN 'i' \
         THEN 'index' WHEN 'S' THEN 'sequence' END as \"Type\", pg_catalog.pg_get_userbyid(c.relowner) as \"Owner\" \
         FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN \
         pg_catalog.pg_am am ON am.oid = c.relam WHERE c.relkind IN ('r','p','') AND n.nspname <> 'pg_catalog' AND \
         n.nspname !~ '^pg_toast' AND n.nspname <> 'information_schema' AND pg_catalog.pg_table_is_visible(c.oid) \
         ORDER BY 1,2";
    assert_eq!(client.lines(tables), ["public|t|table|tester"]);
    let oid = "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON \
         n.oid = c.relnamespace WHERE c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default AND \
         pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3";
    let found = client.lines(oid).swap_remove(0);
    let oid = found.split('|').next().unwrap();
    let columns = format!(
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), (SELECT pg_catalog.pg_get_expr(d.adbin, \
         d.adrelid, true) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND \
         a.atthasdef), a.attnotnull, (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t WHERE \
         c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation, \
         a.attidentity, a.attgenerated FROM pg_catalog.pg_attribute a WHERE a.attrelid = '{oid}' AND a.attnum > 0 AND \
         NOT a.attisdropped ORDER BY a.attnum"
    );
    assert_eq!(
        client.lines(&columns),
        [
            "id|integer|-|t|-||",
            "n|text|-|f|-||",
            "v|numeric(10,2)|0|f|-||"
        ]
    );
    let indexes = format!(
        "SELECT c2.relname, i.indisprimary, i.indisunique, i.indisclustered, i.indisvalid, \
         pg_catalog.pg_get_indexdef(i.indexrelid, 0, true), pg_catalog.pg_get_constraintdef(con.oid, true), contype, \
         condeferrable, condeferred, i.indisreplident, c2.reltablespace FROM pg_catalog.pg_class c, \
         pg_catalog.pg_class c2, pg_catalog.pg_index i LEFT JOIN pg_catalog.pg_constraint con ON (conrelid = \
         i.indrelid AND conindid = i.indexrelid AND contype IN ('p','u','x')) WHERE c.oid = '{oid}' AND c.oid = \
         i.indrelid AND i.indexrelid = c2.oid ORDER BY i.indisprimary DESC, c2.relname"
    );
    let found = client.lines(&indexes);
    assert_eq!(found.len(), 3);
    assert!(found[0].contains(
        "t_pkey|t|t|f|t|CREATE UNIQUE INDEX t_pkey ON public.t USING btree (id)|PRIMARY KEY (id)"
    ));
}

#[test]
fn tables_that_never_have_rows_are_read_in_any_form() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for text in [
        "SELECT pol.polname, pol.polpermissive, CASE WHEN pol.polroles = '{0}' THEN NULL ELSE \
         pg_catalog.array_to_string(array(select rolname from pg_catalog.pg_roles where oid = any (pol.polroles) order \
         by 1),',') END FROM pg_catalog.pg_policy pol WHERE pol.polrelid = '16461' ORDER BY 1",
        "SELECT oid, stxrelid::pg_catalog.regclass, 'd' = any(stxkind) AS ndist_enabled, stxstattarget FROM \
         pg_catalog.pg_statistic_ext WHERE stxrelid = '16461' ORDER BY nsp, stxname",
        "SELECT pubname, NULL, NULL FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_namespace pn ON \
         p.oid = pn.pnpubid UNION SELECT pubname, NULL, NULL FROM pg_catalog.pg_publication p WHERE p.puballtables \
         ORDER BY 1",
        "SELECT pol.polname, pg_catalog.pg_get_expr(pol.polqual, pol.polrelid), pg_catalog.pg_get_expr(pol.polwithcheck, \
         pol.polrelid), CASE pol.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' END AS cmd FROM \
         pg_catalog.pg_policy pol WHERE pol.polrelid = '16461' ORDER BY 1",
        "SELECT pubname, NULL, NULL FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_namespace pn ON \
         p.oid = pn.pnpubid JOIN pg_catalog.pg_class pc ON pc.relnamespace = pn.pnnspid WHERE pc.oid ='16461' UNION \
         SELECT pubname, pg_get_expr(pr.prqual, c.oid), (CASE WHEN pr.prattrs IS NOT NULL THEN (SELECT \
         string_agg(attname, ', ') FROM pg_catalog.generate_series(0, pg_catalog.array_upper(pr.prattrs::pg_catalog.int2[], \
         1)) s, pg_catalog.pg_attribute WHERE attrelid = pr.prrelid AND attnum = prattrs[s]) ELSE NULL END) FROM \
         pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_rel pr ON p.oid = pr.prpubid JOIN pg_catalog.pg_class \
         c ON c.oid = pr.prrelid WHERE pr.prrelid = '16461' UNION SELECT pubname, NULL, NULL FROM \
         pg_catalog.pg_publication p WHERE p.puballtables ORDER BY 1",
        "SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c, pg_catalog.pg_inherits i WHERE c.oid = \
         i.inhparent AND i.inhrelid = '16461' ORDER BY inhseqno",
    ] {
        assert_eq!(client.lines(text).len(), 0, "{text}");
    }
}

#[test]
fn drivers_find_what_they_ask_for_at_connect() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    assert!(client.lines("select pg_catalog.version()")[0].starts_with("PostgreSQL 15"));
    assert_eq!(client.lines("select current_schema()"), ["public"]);
    assert_eq!(
        client.lines("show transaction isolation level"),
        ["serializable"]
    );
    assert_eq!(
        client.lines("SELECT current_user, current_database()"),
        ["tester|test"]
    );
    let types = "SELECT typname AS name, oid, typarray AS array_oid, oid::regtype::text AS regtype, typdelim AS \
         delimiter FROM pg_type t WHERE t.oid = to_regtype($1) ORDER BY t.oid";
    assert_eq!(
        client
            .prepared(types, &[], &[Some("hstore")])
            .unwrap()
            .rows
            .len(),
        0
    );
    client.tag("CREATE TABLE t (id int)");
    let exists = "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON \
         pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relname IN \
         ($1::VARCHAR) AND pg_catalog.pg_class.relkind = ANY (ARRAY[$2::VARCHAR, $3::VARCHAR]) AND \
         pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != $4::VARCHAR";
    let values = [Some("t"), Some("r"), Some("p"), Some("pg_catalog")];
    assert_eq!(
        client.prepared(exists, &[], &values).unwrap().lines(),
        ["t"]
    );
    assert_eq!(client.tag("SET application_name = 'x'"), "SET");
    assert_eq!(
        client.connection.take_changed(),
        [("application_name", "x".to_owned())]
    );
}
