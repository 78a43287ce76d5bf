/*
 * admin.c - make a topic, change one of its configs, and print what the cluster then says of it.
 *
 *     admin [BOOTSTRAP [TOPIC]]
 */
#include <stdio.h>

#include <cafka.h>

static int die(const cafka_error *err)
{
    fprintf(stderr, "admin: %s\n", err->message);
    return 1;
}

static int create(cafka_admin *admin, const char *name, cafka_error *err)
{
    const cafka_setting settings[] = {{"retention.ms", "3600000"}};
    const cafka_new_topic topic = {.size = sizeof topic,
                                   .name = name,
                                   .partitions = 3,
                                   .settings = settings,
                                   .setting_count = 1};
    return cafka_admin_create_topics(admin, &topic, 1, 0, -1, NULL, err);
}

static int change(cafka_admin *admin, const char *name, cafka_error *err)
{
    const cafka_config_change change = {{CAFKA_RESOURCE_TOPIC, name},
                                        CAFKA_CONFIG_SET_VALUE,
                                        "cleanup.policy",
                                        "compact"};
    return cafka_admin_alter_configs(admin, &change, 1, 0, -1, NULL, err);
}

/* What the topic has of its own, and where else the value could come from. */
static int print_configs(cafka_admin *admin, const char *name, cafka_error *err)
{
    const cafka_resource resource = {CAFKA_RESOURCE_TOPIC, name};
    cafka_config_list *list;
    int rc = cafka_admin_describe_configs(admin, &resource, 1, -1, &list, err);
    if (rc)
        return rc;
    const cafka_config_info *info = &list->configs[0];
    for (size_t i = 0; i < info->entry_count; i++) {
        const cafka_config_entry *entry = &info->entries[i];
        if (entry->source != CAFKA_SOURCE_TOPIC)
            continue;
        printf("%s=%s", entry->name, entry->value ? entry->value : "(secret)");
        if (entry->synonym_count > 1)
            printf(", otherwise %s=%s", entry->synonyms[1].name,
                   entry->synonyms[1].value ? entry->synonyms[1].value : "");
        printf("\n");
    }
    if (info->error.code) /* each resource has its own */
        *err = info->error;
    rc = info->error.code;
    cafka_config_list_free(list);
    return rc;
}

int main(int argc, char **argv)
{
    char properties[256];
    const char *topic = argc > 2 ? argv[2] : "orders";
    cafka_admin *admin;
    cafka_error err;

    snprintf(properties, sizeof properties, "bootstrap.servers=%s",
             argc > 1 ? argv[1] : "localhost:9092");
    if (cafka_admin_open(&admin, properties, &err))
        return die(&err);
    int rc = create(admin, topic, &err);
    if (!rc)
        rc = change(admin, topic, &err);
    if (!rc)
        rc = print_configs(admin, topic, &err);
    cafka_admin_free(admin);
    return rc ? die(&err) : 0;
}
