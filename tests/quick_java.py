"""Options of Java for programs that end before optimised code and parallel collection of garbage pay off."""

QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
QUICK_JAVA_OPTIONS = " ".join(QUICK_JAVA)
