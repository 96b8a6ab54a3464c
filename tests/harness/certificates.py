# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests of who is trusted: good ones and each kind of bad one, made on the spot."""

import base64
import datetime
import hashlib
import ipaddress
import ssl
import subprocess

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

NOW = datetime.datetime.now(datetime.timezone.utc)
DAY = datetime.timedelta(days=1)


def key(kind="p256"):
    if kind.startswith("rsa"):
        return rsa.generate_private_key(65537, int(kind[3:]))
    return ec.generate_private_key({"p256": ec.SECP256R1(), "p384": ec.SECP384R1()}[kind])


def pem_of_key(private):
    return private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                 serialization.NoEncryption())


def names_of(names):
    return [x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() or ":" in name else x509.DNSName(name)
            for name in names]


def pin_of(public):
    spki = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return "sha256//" + base64.b64encode(hashlib.sha256(spki).digest()).decode()


class Certificate:
    """One certificate and its key. issuer None: signed by itself."""

    def __init__(self, subject, issuer=None, *, ca=None, names=(), kind="p256", begin=NOW - DAY, end=NOW + 30 * DAY,
                 usage=None, extended=None, path_length=None, constraints=None, constraints_critical=False,
                 unknown_critical=False, weak_hash=None):
        self.key, self.issuer = key(kind), issuer
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        signer = issuer or self
        builder = (x509.CertificateBuilder().subject_name(self.subject).issuer_name(signer.subject)
                   .public_key(self.key.public_key()).serial_number(x509.random_serial_number())
                   .not_valid_before(begin).not_valid_after(end))
        if ca is not None:
            builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=path_length if ca else None), True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names_of(names)), False)
        if usage:
            every = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
                     "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]
            builder = builder.add_extension(x509.KeyUsage(**{name: name in usage for name in every}), True)
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), False)
        if constraints:
            permitted, excluded = constraints
            builder = builder.add_extension(
                x509.NameConstraints(permitted and [x509.DNSName(name) for name in permitted] or None,
                                     excluded and [x509.DNSName(name) for name in excluded] or None),
                constraints_critical)
        if unknown_critical:
            builder = builder.add_extension(
                x509.UnrecognizedExtension(ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00"), True)
        self.certificate = builder.sign(signer.key, hashes.SHA256())
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)
        if weak_hash:
            self.pem = resign(self, signer, weak_hash, names)

    @property
    def pin(self):
        return pin_of(self.key.public_key())

    def write(self, folder, stem, chain=()):
        """Files with certificate and chain, and with the key."""
        certificate, private = folder / f"{stem}.pem", folder / f"{stem}.key"
        certificate.write_bytes(self.pem + b"".join(one.pem for one in chain))
        private.write_bytes(pem_of_key(self.key))
        private.chmod(0o600)
        return certificate, private


def resign(made, signer, digest, names):
    """The library signs with no weak hash any more; OpenSSL's command does."""
    def run(*command, text=None):
        return subprocess.run(["openssl", *command], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)

    import tempfile, pathlib
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "own.key").write_bytes(pem_of_key(made.key))
        (folder / "ca.key").write_bytes(pem_of_key(signer.key))
        (folder / "ca.pem").write_bytes(signer.pem)
        (folder / "ext").write_text("subjectAltName=" + ",".join(
            ("IP:" if name[0].isdigit() else "DNS:") + name for name in names) + "\n")
        request = run("req", "-new", "-key", str(folder / "own.key"), "-subj", "/CN=weak").stdout
        return run("x509", "-req", f"-{digest}", "-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key"),
                   "-set_serial", "7", "-days", "30", "-extfile", str(folder / "ext"), text=request).stdout


def server_context(folder, certificate, chain=(), *, minimum=None, maximum=None, ciphers=None, client_ca=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The server of a test takes whatever is asked of it: weak keys, old protocols.
    context.set_ciphers(ciphers or "ALL:@SECLEVEL=0")
    context.load_cert_chain(*certificate.write(folder, "server", chain))
    if minimum:
        context.minimum_version = minimum
    if maximum:
        context.maximum_version = maximum
    if client_ca:
        (folder / "client-ca.pem").write_bytes(client_ca.pem)
        context.load_verify_locations(folder / "client-ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def authority(name="Test CA", **more):
    return Certificate(name, ca=True, usage=["key_cert_sign", "crl_sign"], **more)


def intermediate(issuer, name="Test intermediate", **more):
    more = {"ca": True, "usage": ["key_cert_sign", "crl_sign"], **more}
    return Certificate(name, issuer, **more)


SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
