"""Sets of values that the chart accepts, named after what a user wants to achieve."""

from tests.helm.chart import BACKEND, BUNDLED, CERTIFIED, MINIMAL, Values, with_values

IN_A_BUCKET: Values = {
    "backend": {"addresses": [BACKEND]},
    "workspaces": {"dfs.tmp": "s3://bucket/lodge?endpoint_override=minio:9000&scheme=http"},
    "s3": {"credentials": {"secretName": "bucket-of-lodge"}},
}

_CONTAINER: Values = {
    "image": "registry.example.com/tool:1",
    "args": ["--port", "9000"],
    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
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
    "extraEnvFrom": [{"prefix": "MORE_", "configMapRef": {"name": "more"}}, {"secretRef": {"name": "secret"}}],
    "initContainers": [{**_CONTAINER, "name": "first"}],
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"},
    "serviceAccount": {"create": True, "name": "", "annotations": {"example.com/identity": "lodge"}},
}

_LODGE_POD: Values = {
    "extraArgs": ["--log-level", "debug"],
    "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    "extraContainers": [{**_CONTAINER, "name": "beside"}],
    "lifecycle": {"preStop": {"exec": {"command": ["sleep", "3"]}}},
    "deploymentAnnotations": {"example.com/restart": "on-change"},
}

EVERYTHING: Values = {
    "fullnameOverride": "front",
    "labels": {"example.com/team": "data"},
    "annotations": {"example.com/owner": "someone"},
    "global": {"imageRegistry": "mirror.example.com:5000/cache/"},
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
    "spark": {
        **_PLACEMENT,
        "extraContainers": [{**_CONTAINER, "name": "beside"}],
        "statefulSetAnnotations": {"example.com/restart": "on-change"},
        "enabled": True,
        "image": {
            "repository": "registry.example.com/lodge-spark",
            "tag": "edge",
            "digest": "sha256:" + 64 * "b",
            "pullPolicy": "Always",
        },
        "replicas": 3,
        "port": 15012,
        "driverPort": 17078,
        "blockManagerPort": 17079,
        "memory": "4g",
        "config": {
            "spark.sql.shuffle.partitions": 16,
            "spark.ui.enabled": True,
            "spark.driver.extraJavaOptions": "-Dpath=a\\b -Dname=c",
        },
        "drainSeconds": 600,
        "executor": {
            **{key: value for key, value in _PLACEMENT.items() if key != "podDisruptionBudget"},
            "instances": 5,
            "cores": 4,
            "requestCores": "500m",
            "limitCores": "4",
            "memory": "8g",
            "memoryOverhead": "2g",
            "resources": {"limits": {"ephemeral-storage": "10Gi"}},
            "dynamicAllocation": {"enabled": True, "minExecutors": 1, "maxExecutors": 20, "idleTimeout": "5m"},
        },
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
        "spark_readers": False,
        "stall_limit": "20s",
        "writable_workspace": ["dfs"],
    },
    "gateway": {
        **_PLACEMENT,
        **_LODGE_POD,
        "replicas": 5,
        "port": 8080,
        "clientCertificatePort": 8443,
        "metricsPort": 8082,
        "preStopSeconds": 0,
        "drainSeconds": 90,
        "autoscaling": {
            "enabled": True,
            "minReplicas": 3,
            "maxReplicas": 20,
            "cpu": "700m",
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {
                        "metric": {"name": "lodge_gateway_statements"},
                        "target": {"type": "AverageValue", "averageValue": "40"},
                    },
                }
            ],
            "behavior": {"scaleUp": {"stabilizationWindowSeconds": 30}},
        },
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "labels": {"edge": "on"},
            "annotations": {"nginx.ingress.kubernetes.io/backend-protocol": "GRPCS"},
            "hosts": ["lodge.example.com", "*.lodge.example.com"],
            "tls": [{"secretName": "certificate-of-ingress", "hosts": ["lodge.example.com"]}],
        },
        "route": {
            "enabled": True,
            "labels": {"edge": "on"},
            "annotations": {"example.com/name": "lodge"},
            "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "grpc"}],
            "hostnames": ["lodge.example.com"],
            "filters": [
                {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x-forwarded-client-cert"]}}
            ],
        },
        "service": {
            "type": "LoadBalancer",
            "nodePort": 30443,
            "externalTrafficPolicy": "Local",
            "loadBalancerClass": "example.com/internal",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "port": 443,
            "clientCertificatePort": 8443,
            "appProtocol": "kubernetes.io/h2c",
            "labels": {"mesh": "on"},
            "annotations": {"example.com/name": "lodge"},
        },
    },
    "reaper": {
        **_PLACEMENT,
        **_LODGE_POD,
        "replicas": 1,
        "metricsPort": 8081,
        "terminationGracePeriodSeconds": 90,
    },
    "monitoring": {
        "podMonitor": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "interval": "15s",
            "scrapeTimeout": "10s",
            "relabelings": [{"targetLabel": "cluster", "replacement": "east"}],
            "metricRelabelings": [{"action": "drop", "sourceLabels": ["le"], "regex": "0.001"}],
        },
        "rules": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "alertLabels": {"team": "data"},
            "disabled": ["LodgeLeaseLapsed"],
        },
        "runbookUrl": "https://docs.example.com/run-books",
        "dashboard": {
            "enabled": True,
            "labels": {"grafana_dashboard": "yes"},
            "annotations": {"grafana_folder": "Lodge"},
        },
    },
    "crds": {"upgrade": False},
    "helmTest": {
        "token": {"secretName": "token-of-the-check", "key": "secret"},
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    },
    "rbac": {"create": True, "nodes": True},
    "extraObjects": [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": '{{ include "lodge.fullname" . }}-more',
                "labels": {"app.kubernetes.io/instance": '{{ include "lodge.fullname" . }}'},
            },
            "data": {"release": "{{ .Release.Name }}"},
        },
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: text\n"
        '  labels: {app.kubernetes.io/instance: {{ include "lodge.fullname" . }}}\n',
    ],
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
    "new claim": with_values(CERTIFIED, {"volume": {"existingClaim": "", "create": True}}),
    "defaults": {},
    "bundled Spark": BUNDLED,
    "bundled Spark and a bucket": with_values(IN_A_BUCKET, {"spark": {"enabled": True}}),
    "bundled Spark with existing permissions and accounts": with_values(
        BUNDLED,
        {
            "backend": {"token": {"secretName": "spark-token"}},
            "rbac": {"create": False},
            "networkPolicy": {"enabled": False},
            "spark": {
                "drainSeconds": 0,
                "podDisruptionBudget": {"enabled": False},
                "serviceAccount": {"create": False, "name": "spark"},
                "executor": {"serviceAccount": {"create": False, "name": "executor"}},
            },
        },
    ),
    "bucket": IN_A_BUCKET,
    "bucket with platform identity": with_values(IN_A_BUCKET, {"s3": {"credentials": {"secretName": ""}}}),
    "no service protocol": with_values(CERTIFIED, {"gateway": {"service": {"appProtocol": ""}}}),
    "own volume": with_values(
        CERTIFIED,
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
        CERTIFIED,
        {
            "authentication": {"kubernetes": {"enabled": False}, "certificate": {"enabled": True}},
            "tls": {"clientCa": {"secretName": "clients"}},
        },
    ),
    "tokens and a certificate of the own": with_values(
        MINIMAL, {"authentication": {"tokens": {"secretName": "tokens"}}, "tls": {"secretName": "certificate"}}
    ),
    "no node permissions": with_values(CERTIFIED, {"rbac": {"nodes": False}}),
    "existing permissions and accounts": with_values(
        CERTIFIED,
        {
            "rbac": {"create": False},
            "gateway": {"serviceAccount": {"create": False, "name": "lodge"}},
            "reaper": {"serviceAccount": {"create": False, "name": "lodge"}},
        },
    ),
    "no budgets, no spread, no replicas": with_values(
        CERTIFIED,
        {
            component: {"replicas": 0, "podDisruptionBudget": {"enabled": False}, "topologySpreadConstraints": []}
            for component in ("gateway", "reaper")
        },
    ),
    "all values": EVERYTHING,
}
