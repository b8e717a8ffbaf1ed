from anycloud_sandbox.cli import main

main()
