/*
 * options.h - the command line of cafka-mockbroker as cluster options.
 *
 * Thread: any; no state.
 */
#ifndef CAFKA_MOCKBROKER_OPTIONS_H
#define CAFKA_MOCKBROKER_OPTIONS_H

#include "mockbroker/cluster.h"

struct program_options {
    struct cluster_options cluster;
    bool help, version;
    bool verbose;
    struct properties given; /* by --set: names must be known */
};

extern const char options_usage[];

/* Error CAFKA_ERR_CONFIG: the message says what is wrong with which option. */
int options_parse(struct program_options *out, int argc, char *const *argv, const cafka_env *env,
                  struct log log, cafka_error *err);
void options_fini(struct program_options *o);
/* NAME[:PARTITIONS[:REPLICAS[:KEY=VALUE,…]]] */
int topic_option_parse(struct topic_option *out, const char *text, cafka_error *err);

#endif
