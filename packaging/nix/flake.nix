# nix run 'git+file:///PATH/TO/punctual?dir=packaging/nix' -- --help
{
  description = "punctual: real-time latency measurement, diagnosis and tuning";

  # A release with Rust 1.90 or later.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: rec {
        punctual = pkgs.callPackage ./package.nix { };
        default = punctual;
      });

      # Lets users measure with real-time priority and locked memory, without root.
      nixosModules.default = { pkgs, ... }: {
        environment.systemPackages = [ self.packages.${pkgs.stdenv.hostPlatform.system}.default ];
        security.pam.loginLimits = [
          { domain = "@realtime"; type = "-"; item = "rtprio"; value = "95"; }
          { domain = "@realtime"; type = "-"; item = "memlock"; value = "unlimited"; }
        ];
        users.groups.realtime = { };
      };
    };
}
