from lodge.cli import main

main()
