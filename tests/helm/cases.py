"""Sets of values that the chart accepts, named after what a user wants to achieve."""

from tests.helm.chart import BACKEND, MINIMAL, Values, with_values

IN_A_BUCKET: Values = {
    "backend": {"addresses": [BACKEND]},
    "workspaces": {"dfs.tmp": "s3://bucket/lodge?endpoint_override=minio:9000&scheme=http"},
    "s3": {"credentials": {"secretName": "bucket-of-lodge"}},
}

_PLACEMENT: Values = {
    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}},
    "podLabels": {"team": "data"},
    "podAnnotations": {"example.com/scrape": "yes"},
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "lodge", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "Exists"}]}]
            }
        }
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 2,
            "topologyKey": "rack",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"team": "data"}},
        }
    ],
    "extraEnv": [
        {"name": "GRPC_VERBOSITY", "value": "info"},
        {"name": "LODGE_LOG_LEVEL", "valueFrom": {"configMapKeyRef": {"name": "levels", "key": "lodge"}}},
    ],
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"},
    "serviceAccount": {"create": True, "name": "", "annotations": {"example.com/identity": "lodge"}},
}

EVERYTHING: Values = {
    "fullnameOverride": "front",
    "labels": {"example.com/team": "data"},
    "annotations": {"example.com/owner": "someone"},
    "image": {
        "repository": "registry.example.com/lodge",
        "tag": "edge",
        "digest": "sha256:" + 64 * "a",
        "pullPolicy": "Always",
    },
    "imagePullSecrets": [{"name": "registry"}],
    "backend": {
        "addresses": [f"{BACKEND}/;use_ssl=true", "sc://10.0.0.7:15002", "sc://[fd00::7]:9"],
        "token": {"secretName": "spark-token", "key": "spark.token"},
        "tls": {"caSecretName": "spark-ca", "caKey": "ca.pem", "certificateSecretName": "lodge-for-spark"},
        "podSelector": {"app": "spark-connect"},
    },
    "authentication": {
        "kubernetes": {"enabled": False, "audiences": ["spark", "lodge"]},
        "tokens": {"secretName": "tokens-of-lodge", "key": "tokens"},
        "jwt": [
            {
                "jwks": "https://idp.example.com/keys",
                "issuer": "https://idp.example.com",
                "audience": "lodge",
                "principal_claim": "email",
                "groups_claim": "groups",
            }
        ],
        "certificate": {"enabled": True},
        "allowUnauthenticated": False,
    },
    "admins": ["ops", "group:admins"],
    "tls": {
        "enabled": True,
        "source": "secret",
        "secretName": "certificate-of-lodge",
        "dnsNames": ["lodge.example.com"],
        "certManager": {"issuerRef": {"name": "letsencrypt", "kind": "ClusterIssuer"}},
        "selfSigned": {"days": 30},
        "clientCa": {"secretName": "clients-of-lodge", "key": "clients.crt"},
    },
    "networkPolicy": {
        "enabled": True,
        "clients": [{"namespaceSelector": {"matchLabels": {"team": "data"}}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "metrics": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    },
    "listenHost": "[::]",
    "workspaces": {"dfs": "file:///workspace/data", "dfs.tmp": "file:///workspace/tmp", "raw": "file:///mnt/raw"},
    "volume": {
        "existingClaim": "",
        "create": True,
        "size": "2Ti",
        "storageClassName": "nfs",
        "accessModes": ["ReadWriteMany"],
        "keep": False,
        "mountPath": "/workspace",
        "subPath": "lodge",
    },
    "extraVolumes": [{"name": "raw", "nfs": {"server": "nfs.example.com", "path": "/raw"}}],
    "extraVolumeMounts": [{"name": "raw", "mountPath": "/mnt/raw", "readOnly": True}],
    "s3": {
        "credentials": {
            "secretName": "bucket-of-lodge",
            "accessKeyIdKey": "id",
            "secretAccessKeyKey": "secret",
            "sessionTokenKey": "session",
        }
    },
    "config": {
        "audit_log": "/tmp/audit.log",
        "backend_keepalive": "20s",
        "connection_idle_timeout": "7m",
        "failed_logins_per_minute": 7,
        "max_connection_age": "7m",
        "max_connection_streams": 8,
        "max_connections": 9,
        "max_principal_request_bytes_in_flight": "100MiB",
        "max_principal_requests_in_flight": 10,
        "max_principal_response_bytes_in_flight": "100MiB",
        "max_principal_sessions": 11,
        "max_principal_statements": 12,
        "max_request_bytes_in_flight": "100MiB",
        "max_requests_in_flight": 13,
        "max_response_bytes_in_flight": "100MiB",
        "max_sessions": 14,
        "max_statements": 15,
        "new_sessions_per_minute": 16,
        "principal_new_sessions_per_minute": 17,
        "principal_requests_per_second": 18,
        "request_timeout": "7m",
        "default_temporary_workspace": "dfs.tmp",
        "detached_timeout": "2m",
        "grace_period": "90s",
        "leader_election": True,
        "lease_duration": 20,
        "log_level": "debug",
        "log_query_text": True,
        "mass_expiry_minimum": 50,
        "mass_expiry_share": 0.25,
        "max_message_bytes": "64MiB",
        "max_plan_bytes": "32MiB",
        "max_principal_bytes": "1TiB",
        "max_principal_tables": 1000,
        "max_session_bytes": 1073741824,
        "max_session_tables": 100,
        "principal_backend": {"ada": BACKEND, "bob@example.com": "sc://[fd00::8]:15002"},
        "removals": 8,
        "resync_period": "10m",
        "session_idle_timeout": "2h",
        "writable_workspace": ["dfs"],
    },
    "gateway": {
        **_PLACEMENT,
        "replicas": 5,
        "port": 8080,
        "clientCertificatePort": 8443,
        "metricsPort": 8082,
        "preStopSeconds": 0,
        "drainSeconds": 90,
        "service": {
            "port": 443,
            "clientCertificatePort": 8443,
            "appProtocol": "kubernetes.io/h2c",
            "labels": {"mesh": "on"},
            "annotations": {"example.com/name": "lodge"},
        },
    },
    "reaper": {**_PLACEMENT, "replicas": 1, "metricsPort": 8081, "terminationGracePeriodSeconds": 90},
    "rbac": {"create": True, "nodes": True},
    "podSecurityContext": {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "Always",
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    },
}
"""A set with every value. Each differs from its default if other values allow it."""

CASES: dict[str, Values] = {
    "existing claim": MINIMAL,
    "new claim": with_values(MINIMAL, {"volume": {"existingClaim": "", "create": True}}),
    "bucket": IN_A_BUCKET,
    "bucket with platform identity": with_values(IN_A_BUCKET, {"s3": {"credentials": {"secretName": ""}}}),
    "no service protocol": with_values(MINIMAL, {"gateway": {"service": {"appProtocol": ""}}}),
    "own volume": with_values(
        MINIMAL,
        {
            "workspaces": {"dfs.tmp": "file:///mnt/tmp"},
            "volume": {"existingClaim": ""},
            "extraVolumes": [{"name": "mine", "nfs": {"server": "nfs", "path": "/"}}],
            "extraVolumeMounts": [{"name": "mine", "mountPath": "/mnt/"}],
        },
    ),
    "no authentication": with_values(
        MINIMAL,
        {
            "authentication": {"kubernetes": {"enabled": False}, "allowUnauthenticated": True},
            "tls": {"enabled": False},
            "networkPolicy": {"enabled": False},
        },
    ),
    "only certificates": with_values(
        MINIMAL,
        {
            "authentication": {"kubernetes": {"enabled": False}, "certificate": {"enabled": True}},
            "tls": {"clientCa": {"secretName": "clients"}},
        },
    ),
    "tokens and a certificate of the own": with_values(
        MINIMAL, {"authentication": {"tokens": {"secretName": "tokens"}}, "tls": {"secretName": "certificate"}}
    ),
    "no node permissions": with_values(MINIMAL, {"rbac": {"nodes": False}}),
    "existing permissions and accounts": with_values(
        MINIMAL,
        {
            "rbac": {"create": False},
            "gateway": {"serviceAccount": {"create": False, "name": "lodge"}},
            "reaper": {"serviceAccount": {"create": False, "name": "lodge"}},
        },
    ),
    "no budgets, no spread, no replicas": with_values(
        MINIMAL,
        {
            component: {"replicas": 0, "podDisruptionBudget": {"enabled": False}, "topologySpreadConstraints": []}
            for component in ("gateway", "reaper")
        },
    ),
    "all values": EVERYTHING,
}
